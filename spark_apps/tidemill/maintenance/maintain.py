"""Maintenance of one table while its stream runs: planned, and safe to interrupt at any point.

    plan = plan_maintenance(environment, store, known, table)
    report = maintain(environment, store, known, table, may_delete=True)

1. Small files are compacted, in a commit that changes no row. If another writer commits first, it wins.
2. The log gets a checkpoint.
3. Data files that no readable version contains are deleted, by a plan made after 1. This makes no commit, and
   the next run finds the files that are left.
4. Expired log files are deleted, the oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tidemill.errors import TidemillError
from tidemill.ledger.read import open_table
from tidemill.maintenance.decide import Decision, TableFacts, decide, unneeded_files
from tidemill.maintenance.needs import Maintained
from tidemill.maintenance.table_facts import files_since, gather_table
from tidemill.spec.project import Environment
from tidemill.storage.advance import Advance, Told, Work, nobody_told
from tidemill.storage.store import Store, StoredFile

# Files deleted in parallel.
DELETES_AT_ONCE = 16

# Tasks of one compaction, few because the machine is shared.
COMPACTIONS_AT_ONCE = 2

_LOOKS = "log and files are read"

# Callback that is called after each step. Tests raise an error in it to simulate a crash.
StepDone = Callable[[str], None]


def nothing_more(_: str) -> None:
    """Ignore the step."""


@dataclass(frozen=True)
class TablePlan:
    """Plan of a table's maintenance.

    Args:
        table: Name.
        path: Path of the table.
        facts: Facts from which it was decided.
        decision: The decision.
        files: Data files that no version needs.
        log_files: Expired files of the log, oldest version first.
    """

    table: str
    path: str
    facts: TableFacts
    decision: Decision
    files: tuple[StoredFile, ...]
    log_files: tuple[str, ...]

    @property
    def has_work(self) -> bool:
        """Return True if anything would be done."""
        decision = self.decision
        return bool(decision.compact or decision.checkpoint or self.files or self.log_files)

    def lines(self) -> list[str]:
        """Return the plan in readable form."""
        facts, decision = self.facts, self.decision
        small = decision.compact
        told = [
            f"{self.table}: version {facts.log.newest}, {len(facts.files)} data files",
            f"  small files: {f'{small} are put together' if small else decision.compact_left}",
            f"  log checkpoint: {'made' if decision.checkpoint else 'new enough'}",
        ]
        if decision.floor.version is None:
            return [*told, f"  nothing may be deleted: {decision.floor.because}"]
        size = sum(file.size for file in self.files)
        return [
            *told,
            f"  data files to delete: {len(self.files)}, {size} bytes",
            f"  log files to delete: {len(self.log_files)}",
            f"  versions from {decision.floor.version} on stay readable: {decision.floor.because}",
        ]

    def as_document(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "table": self.table,
            "version": self.facts.log.newest,
            "data_files": len(self.facts.files),
            "compact": self.decision.compact,
            "compact_left": self.decision.compact_left,
            "checkpoint": self.decision.checkpoint,
            "oldest_needed_version": self.decision.floor.version,
            "needed_by": self.decision.floor.because,
            "delete": {"files": len(self.files), "bytes": sum(file.size for file in self.files)},
            "delete_log_files": len(self.log_files),
        }


@dataclass
class TableReport:
    """Result of a table's maintenance.

    Args:
        table: Name.
        done: Actions done or skipped, one sentence each.
        failed: Actions that failed.
        deleted: Number of files deleted.
    """

    table: str
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    deleted: int = 0

    def lines(self) -> list[str]:
        """Return log lines."""
        return [f"{self.table}: {text}" for text in (*self.done, *self.failed)]

    def as_document(self) -> dict[str, Any]:
        """Return plain data."""
        return {"table": self.table, "done": self.done, "failed": self.failed, "deleted": self.deleted}


def plan_maintenance(
    environment: Environment, store: Store, known: Maintained, table: str, now: datetime | None = None
) -> TablePlan | None:
    """Return the current plan; None if the table does not exist. Writes nothing.

    Raises:
        DataError: TIDE-LEDG-001, if its log cannot be read.
    """
    facts = gather_table(environment, store, known, table)
    if facts is None:
        return None
    path = known.tables[table].path
    decision = decide(facts, now or datetime.now(UTC))
    files: list[StoredFile] = []
    if decision.floor.version is not None:
        # There is nothing to find if all files are new; otherwise each commit from there on is read.
        old = [file for file in facts.stored if file.modified < decision.files_before]
        needed = files_since(store, path, facts.log, decision.floor.version) if old else ()
        files = unneeded_files(old, path, needed, decision.files_before)
    return TablePlan(table, path, facts, decision, tuple(files), _expired(facts, decision.log_before))


def maintain(  # noqa: PLR0913  # the arguments of a plan, and callbacks
    environment: Environment,
    store: Store,
    known: Maintained,
    table: str,
    *,
    may_delete: bool,
    now: datetime | None = None,
    step_done: StepDone = nothing_more,
    told: Told = nobody_told,
) -> TableReport:
    """Maintain a table; a failed step does not stop the others.

    Args:
        environment: Environment of the table.
        store: Store of its root.
        known: Tables, their writers and readers.
        table: Name.
        may_delete: True if files that no version needs may be deleted.
        now: Time to which ages are measured.
        step_done: Called after each step.
        told: Called with the current step and its progress.
    """
    report = TableReport(table)
    told(Advance(_LOOKS))
    plan = plan_maintenance(environment, store, known, table, now)
    if plan is None:
        report.done.append("there is no table yet")
        return report
    # 1.
    path = plan.path
    if plan.decision.compact:
        told(Advance(f"{plan.decision.compact} small files are put together"))
        _attempt(report, "small files", lambda: _compact(path))
        step_done("compacted")
    else:
        report.done.append(f"small files: {plan.decision.compact_left}")
    # 2.
    if plan.decision.checkpoint:
        told(Advance("a log checkpoint is made"))
        _attempt(report, "log checkpoint", lambda: _checkpoint(path))
        step_done("checkpoint")
    told(Advance(_LOOKS))
    # Plan again, because an operation may have begun since, and the log has a checkpoint.
    plan = plan_maintenance(environment, store, known, table, now) or plan
    floor = plan.decision.floor
    if floor.version is None:
        report.done.append(f"nothing may be deleted: {floor.because}")
        return report
    kept = f"versions from {floor.version} on stay readable: {floor.because}"
    counts = f"{len(plan.files)} data files and {len(plan.log_files)} log files"
    if not may_delete:
        report.done.append(f"not approved, so not deleted: {counts}; {kept}")
        return report
    # 3.
    _delete(store, [file.path for file in plan.files], step_done, told)
    # 4. One after the other, so that a crash leaves no gap.
    _delete_in_order(store, plan.log_files, step_done, told)
    report.deleted = len(plan.files) + len(plan.log_files)
    report.done.append(f"deleted {counts}; {kept}")
    return report


def _attempt(report: TableReport, what: str, act: Callable[[], str]) -> None:
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        report.done.append(f"{what}: {act()}")
    except CommitFailedError:
        report.done.append(f"{what}: left, because another writer was first; the next run tries again")
    except (DeltaError, TidemillError) as error:
        report.failed.append(f"{what}: {error}")


def _compact(path: str) -> str:
    from deltalake import WriterProperties

    table = open_table(path)
    if table is None:
        return "the table has gone"
    # The same compression as Delta and Spark use.
    writer = WriterProperties(compression="SNAPPY")
    done = table.optimize.compact(max_concurrent_tasks=COMPACTIONS_AT_ONCE, writer_properties=writer)
    return f"{done['numFilesRemoved']} put together into {done['numFilesAdded']}"


def _checkpoint(path: str) -> str:
    table = open_table(path)
    if table is None:
        return "the table has gone"
    table.create_checkpoint()
    return f"made at version {table.version()}"


def _expired(facts: TableFacts, before: int | None) -> tuple[str, ...]:
    """Return log files of versions before this one, the oldest version first."""
    if before is None:
        return ()
    old = ((version, path) for path, version in facts.log.files.items() if version < before)
    return tuple(path for _, path in sorted(old))


def _delete(store: Store, paths: Sequence[str], step_done: StepDone, told: Told) -> None:
    def delete(path: str) -> None:
        store.delete(path)
        step_done("data file deleted")

    with ThreadPoolExecutor(DELETES_AT_ONCE) as threads:
        # Reading the results raises the exceptions of deletions.
        list(Work("data files are deleted", len(paths), told).counted(threads.map(delete, paths)))


def _delete_in_order(store: Store, paths: Sequence[str], step_done: StepDone, told: Told) -> None:
    def delete(path: str) -> None:
        store.delete(path)
        step_done("log file deleted")

    # Python's own `map` begins with a file after the previous one is deleted.
    list(Work("log files are deleted", len(paths), told).counted(map(delete, paths)))
