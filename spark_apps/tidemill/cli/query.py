"""`tidemill query "SELECT …"`: query the tables without a JVM."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.names import catalogued_name
from tidemill.spec.readable import cell, plain


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(query)


def query(
    context: typer.Context,
    sql: Annotated[
        str,
        typer.Argument(
            help="One SELECT, or SHOW TABLES. Examples of tables: silver.orders, quarantine.my_pipeline, "
            'files."exports/orders", memory.counts.'
        ),
    ],
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of rows to show.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a query over the newest versions of the tables.

    DataFusion runs the query. Functions with different meanings in Spark and DataFusion work as in Spark.
    """
    from tidemill.control.memory_tables import memory_tables
    from tidemill.ledger.files_rows import declared_folders
    from tidemill.ledger.table_query import FILES, MEMORY, Copied, run_query

    invocation = invocation_of(context)
    environment = invocation.environment()
    catalog = environment.spec.catalog
    others: dict[str, Copied] = {}
    # Most queries name only tables, and then no pipeline file needs to be read.
    if any(word in sql.lower() for word in (FILES, MEMORY, "show")):
        others |= declared_folders(environment.layout, environment.project)
        # In-memory tables can be read only from the driver's machine.
        others |= memory_tables(invocation.control_plane()) if environment.spec.runtime == "local" else {}
    result = run_query(environment.layout, sql, limit, catalog, others)
    if as_json:
        print_json(result.rows)
        return
    print_table(
        [plain(name) for name in result.columns],
        ([cell(row[name]) for name in result.columns] for row in result.rows),
    )
    read = ", ".join(
        f"{catalogued_name(catalog, name)} v{version}" for name, version in result.versions.items()
    )
    more = f"; there are more, see --limit {limit}" if result.more else ""
    say(f"{len(result.rows)} rows{f' of {read}' if read else ''}{more}")
