"""Facts for the decision about a table's maintenance, from its folder, its log and checkpoints."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidemill.checkpoint.retention.rule import retention_of
from tidemill.checkpoint.retention.table_properties import table_retention
from tidemill.errors import DataError
from tidemill.ledger.read import History, open_table, unreadable_log
from tidemill.ledger.small_files import data_files, unsupported
from tidemill.ledger.standing import standing_commits
from tidemill.maintenance.decide import TableFacts
from tidemill.maintenance.log_listing import LogListing, read_listing
from tidemill.maintenance.needs import Maintained, MaintainedTable, gather_needs
from tidemill.spec.project import Environment
from tidemill.storage.access import access_to
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Commit files read in parallel; storage answers each after some milliseconds.
READS_AT_ONCE = 16

# Property of a table whose log must not be cleaned up.
NO_LOG_CLEANUP = ("delta.enableExpiredLogCleanup", "false")


def gather_table(environment: Environment, store: Store, known: Maintained, name: str) -> TableFacts | None:
    """Return the facts about one table; None if it does not exist. Writes nothing.

    Raises:
        DataError: TIDE-LEDG-001, if its log cannot be read.
    """
    from deltalake.exceptions import DeltaError

    table = known.tables[name]
    inside = f"{table.path}/_delta_log/"
    found = store.list_files(table.path)
    log = read_listing(file for file in found if file.path.startswith(inside))
    if log is None:
        return None
    try:
        delta = open_table(table.path)
        if delta is None:
            return None
        return _facts(environment, store, known, table, log, delta, found)
    except DeltaError as error:
        raise unreadable_log(table.path, error) from error


def files_since(store: Store, path: str, log: LogListing, version: int) -> set[str]:
    """Return every file that versions from this one on contain or name, by path below the table.

    Raises:
        DataError: TIDE-LEDG-001, if a version cannot be read.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        oldest = DeltaTable(path, version=version, storage_options=access_to(path).delta_options())
        needed = {file.name for file in data_files(oldest)}
    except DeltaError as error:
        raise unreadable_log(path, error) from error
    commits = range(version + 1, log.newest + 1)
    with ThreadPoolExecutor(READS_AT_ONCE) as threads:
        contents = threads.map(lambda v: store.read(f"{path}/_delta_log/{v:020}.json"), commits)
        for commit, content in zip(commits, contents, strict=True):
            if content is None:
                raise unreadable_log(path, f"version {commit} has gone while it was read")
            needed.update(_named_files(content))
    return needed


def _newest_entries(history: History, writers: Collection[str]) -> int | None:
    """Return the oldest of the versions with each writer's newest ledger entry; None without any."""
    wanted, oldest = set(writers), None
    for commit in standing_commits(history):
        entry = commit.entry
        if entry is not None and entry.mode != "backfill" and entry.pipeline in wanted:
            wanted.discard(entry.pipeline)
            oldest = commit.version
        if not wanted:
            break
    return oldest


def _facts(  # noqa: PLR0913  # all facts that were read
    environment: Environment,
    store: Store,
    known: Maintained,
    table: MaintainedTable,
    log: LogListing,
    delta: DeltaTable,
    found: list[Any],
) -> TableFacts:
    metadata = delta.metadata()
    kept = table_retention(table.path, metadata.configuration)
    windows = [retention_of(pipeline.spec).deleted_file_retention for pipeline in table.writers]
    files = tuple(data_files(delta))
    needs, unknown = gather_needs(environment, store, table, str(metadata.id))
    unknown += [f"pipeline {name} cannot be read, and might read the table" for name in known.broken]
    name, value = NO_LOG_CLEANUP
    return TableFacts(
        table.name,
        log,
        files,
        tuple(file for file in found if file.path not in log.files and "/_delta_log/" not in file.path),
        max(kept.deleted_files, *windows),
        None if metadata.configuration.get(name, "").lower() == value else kept.log,
        tuple(needs),
        tuple(unknown),
        _newest_entries(History(table.path, delta), [pipeline.name for pipeline in table.writers]),
        unsupported(delta, files),
    )


def _named_files(content: bytes) -> Iterator[str]:
    """Yield files that a commit adds or removes, or in which it stores changes."""
    for line in content.splitlines():
        try:
            action = json.loads(line)
        except ValueError as error:
            raise DataError(
                "TIDE-LEDG-001",
                "The table's log cannot be read: a commit is damaged. Nothing was changed.",
                facts={"reason": str(error)},
                runbook="table-log-damaged",
            ) from error
        for kind in ("add", "remove", "cdc"):
            if kind in action:
                yield unquote(str(action[kind]["path"]))
