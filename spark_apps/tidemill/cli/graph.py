"""`tidemill graph`: pipelines and tables in dependency order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import console, print_json

if TYPE_CHECKING:
    from rich.tree import Tree

    from tidemill.spec.table_graph import TableGraph


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command()(graph)


def graph(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which pipeline feeds which."""
    from tidemill.spec.table_graph import build_graph

    project = invocation_of(context).project()
    found = build_graph({name: project.load_pipeline(name) for name in project.pipeline_names()})
    order = found.order()
    if as_json:
        print_json({"order": order, "pipelines": [_document(found, name) for name in order]})
    else:
        _print_tree(found)


def _document(found: TableGraph, name: str) -> dict[str, Any]:
    links = found.links[name]
    return {
        "pipeline": name,
        "reads": list(links.reads),
        "writes": list(links.writes),
        "after": found.upstream(name),
    }


def _print_tree(found: TableGraph) -> None:
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree("sources", hide_root=True)
    for root in found.roots():
        _grow(tree.add(Text(root)), found, root)
    console().print(tree)


def _grow(branch: Tree, found: TableGraph, what: str) -> None:
    """Below a table or topic, its readers; below each, what it writes. Ends because there are no circles."""
    from rich.text import Text

    for pipeline in found.readers(what):
        leaf = branch.add(Text(pipeline, style="bold"))
        for written in found.links[pipeline].writes:
            _grow(leaf.add(Text(written)), found, written)
