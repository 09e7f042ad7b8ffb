"""`tidemill table maintain`: compact small files, and delete files that no version needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, say
from tidemill.cli.progress_bar import Stand, progress_bar
from tidemill.cli.verb_command import Apply, ApprovedBy, AsJson, By
from tidemill.control.procedures.run import Asking, check_approval

if TYPE_CHECKING:
    from tidemill.control.maintenance import Upkeep
    from tidemill.maintenance.maintain import TableReport
    from tidemill.storage.advance import Advance, Told

Table = Annotated[str, typer.Argument(help="Table as <zone>/<name>. Default: all tables.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Maintenance of tables.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)
    group.command()(maintain)
    app.add_typer(group, name="table")


def maintain(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    table: Table = "",
    apply: Apply = False,
    by: By = "",
    approved_by: ApprovedBy = "",
    as_json: AsJson = False,
) -> None:
    """Compact small files and delete unneeded files. Streams may continue to run."""
    from tidemill.control.maintenance import open_upkeep

    invocation = invocation_of(context)
    upkeep = open_upkeep(invocation.control_plane())
    names = [upkeep.check(table)] if table else upkeep.there()
    if not apply:
        words = [word for word in (table, "--apply") if word]
        _plan(upkeep, names, invocation.command("table", "maintain", *words), as_json=as_json)
        return
    asking = Asking("maintain", (), by, invocation.command, approved_by)
    if approved_by:
        check_approval(asking, upkeep.plane.environment)
    reports = _maintain_each(upkeep, names, asking, quiet=as_json)
    if as_json:
        print_json({"applied": True, "tables": [report.as_document() for report in reports]})
    else:
        for line in (line for report in reports for line in report.lines()):
            say(line)
    if any(report.failed for report in reports):
        raise typer.Exit(1)


def _maintain_each(upkeep: Upkeep, names: list[str], asking: Asking, *, quiet: bool) -> list[TableReport]:
    reports: list[TableReport] = []
    with progress_bar("maintenance", "tables", quiet=quiet) as show:
        for name in names:

            def told(advance: Advance, table: str = name) -> None:
                show(_stand(len(reports), len(names), table, advance))

            reports.append(_maintain(upkeep, name, asking, told))
            show(Stand(len(reports), len(names), f"{name} is done"))
    return reports


def _stand(done: int, total: int, table: str, advance: Advance) -> Stand:
    counted = f"{advance.done} of {advance.total}" if advance.is_counted else ""
    return Stand(done, total, f"{table}: {advance.what}", counted)


def _maintain(upkeep: Upkeep, table: str, asking: Asking, told: Told) -> TableReport:
    """Maintain one table. A damaged table does not stop the others."""
    from tidemill.errors import DataError
    from tidemill.maintenance.maintain import TableReport

    try:
        return upkeep.maintain(table, asking.person, approved=bool(asking.approved_by), told=told)
    except DataError as error:
        return TableReport(table, failed=[str(error)])


def _plan(upkeep: Upkeep, names: list[str], command: str, *, as_json: bool) -> None:
    plans = [plan for name in names if (plan := upkeep.plan(name)) is not None]
    if as_json:
        print_json({"applied": False, "tables": [plan.as_document() for plan in plans]})
        return
    for line in (line for plan in plans for line in plan.lines()):
        say(line)
    if any(plan.has_work for plan in plans):
        say(f"Nothing was done. To carry it out: {command}")
    else:
        say("There is nothing to do.")
