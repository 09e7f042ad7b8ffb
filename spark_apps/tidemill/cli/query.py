"""`tidemill query "SELECT …"`: look into the platform's tables, without a JVM."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.names import catalogued_name


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command()(query)


def query(
    context: typer.Context,
    sql: Annotated[
        str,
        typer.Argument(
            help='One SELECT; tables are silver.orders, quarantine.my_pipeline, files."exports/orders".'
        ),
    ],
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Most rows shown.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a query over the tables, in their newest versions."""
    from tidemill.ledger.files_rows import declared_folders
    from tidemill.ledger.table_query import FILES, run_query

    environment = invocation_of(context).environment()
    catalog = environment.spec.catalog
    folders = declared_folders(environment.project) if FILES in sql else {}
    result = run_query(environment.layout, sql, limit, catalog, folders)
    if as_json:
        print_json(result.rows)
        return
    print_table(result.columns, ([row[name] for name in result.columns] for row in result.rows))
    read = ", ".join(
        f"{catalogued_name(catalog, name)} v{version}" for name, version in result.versions.items()
    )
    more = f"; there are more, see --limit {limit}" if result.more else ""
    say(f"{len(result.rows)} rows of {read or 'no table'}{more}")
