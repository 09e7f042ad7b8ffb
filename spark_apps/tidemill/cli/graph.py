"""`tidemill graph`: show pipelines and tables in dependency order."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import console, print_json
from tidemill.names import catalogued_name

if TYPE_CHECKING:
    from rich.tree import Tree

    from tidemill.errors import SpecError
    from tidemill.spec.pipeline import PipelineSpec
    from tidemill.spec.project_folder import Project
    from tidemill.spec.table_graph import TableGraph


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(graph)


def graph(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the dependencies between pipelines and tables."""
    from tidemill.spec.project import load_environment
    from tidemill.spec.table_graph import build_graph

    invocation = invocation_of(context)
    project = invocation.project()
    catalog = load_environment(project, invocation.environment_name).spec.catalog
    specs, invalid = _load_all(project)
    found = build_graph(specs)
    order = found.order()
    if as_json:
        pipelines = [_document(found, name, catalog) for name in order]
        left_out = (
            {"invalid": {name: error.as_document() for name, error in invalid.items()}} if invalid else {}
        )
        print_json({"order": order, "pipelines": pipelines, **left_out})
        return
    _print_tree(found, catalog)
    for name, error in invalid.items():
        problem = error.problem.partition("\n")[0]
        sys.stderr.write(f"{name} is left out: {error.error_id} {problem} See: tidemill validate {name}\n")


def _load_all(project: Project) -> tuple[dict[str, PipelineSpec], dict[str, SpecError]]:
    """Return the valid pipelines of a project, and the errors of the others."""
    from tidemill.errors import SpecError

    specs: dict[str, PipelineSpec] = {}
    invalid: dict[str, SpecError] = {}
    for name in project.pipeline_names():
        try:
            specs[name] = project.load_pipeline(name)
        except SpecError as error:
            invalid[name] = error
    return specs, invalid


def _document(found: TableGraph, name: str, catalog: str | None) -> dict[str, Any]:
    links = found.links[name]
    return {
        "pipeline": name,
        "reads": [_shown(what, catalog) for what in links.reads],
        "writes": [_shown(what, catalog) for what in links.writes],
        "after": found.upstream(name),
    }


def _shown(what: str, catalog: str | None) -> str:
    """Return `table silver/orders` with its catalog name, and other inputs unchanged."""
    kind, _, name = what.partition(" ")
    return f"{kind} {catalogued_name(catalog, name)}" if kind == "table" else what


def _print_tree(found: TableGraph, catalog: str | None) -> None:
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree("sources", hide_root=True)
    for root in found.roots():
        _grow(tree.add(Text(_shown(root, catalog))), found, root, catalog)
    console().print(tree)


def _grow(branch: Tree, found: TableGraph, what: str, catalog: str | None) -> None:
    """Add the readers of a table or topic, and their outputs, recursively. The graph has no cycles."""
    from rich.text import Text

    for pipeline in found.readers(what):
        leaf = branch.add(Text(pipeline, style="bold"))
        for written in found.links[pipeline].writes:
            _grow(leaf.add(Text(_shown(written, catalog))), found, written, catalog)
