"""`restore`: a backup becomes a new generation, and the tables go back to where they stood with it.

The checkpoint gets a query id and transaction ids of its own, so that Delta does not take its batches for
ones that it has. The backup may lie below another storage root: its paths are relative.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.checkpoint.current import Base, Current
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.verbs.backup_manifest import CHECKPOINT, Manifest, backup_folder
from tidemill.checkpoint.verbs.reset import switch_to
from tidemill.checkpoint.verbs.whole_copy import PARALLEL_COPIES
from tidemill.errors import DataError, GateRefusedError
from tidemill.ledger.read import Commit
from tidemill.ledger.standing import standing_commits
from tidemill.ledger.table_restore import RestoreTable, TableRestore, changes_no_row, written_by_others
from tidemill.names import Layout, transaction_id
from tidemill.storage.store import Store


@dataclass(frozen=True)
class TableToRestore:
    """One table as it is.

    Args:
        name: As in the manifest.
        path: Where it is.
        commits: All that its log still has, newest first; empty if there is no table.
    """

    name: str
    path: str
    commits: Sequence[Commit]


@dataclass(frozen=True)
class RestoreFacts:
    """What a restore is decided from.

    Args:
        manifest: Of the backup.
        live: Record of the live generation; None where the pipeline never ran.
        generation: Name that no generation of the state folder has.
        tables: The pipeline's tables.
    """

    manifest: Manifest
    live: Current | None
    generation: str
    tables: tuple[TableToRestore, ...]


@dataclass(frozen=True)
class BackupPlace:
    """Where a backup lies: in this storage root, or another one."""

    store: Store
    layout: Layout


def plan_restore(facts: RestoreFacts) -> dict[str, Any]:
    """The new generation, and for each table the version to bring back and what that undoes.

    Raises:
        GateRefusedError: TIDE-CKPT-080 if a table is missing or older than the backup, TIDE-CKPT-040 if
            commits of somebody else would be undone.
    """
    tables = [_plan_table(facts, table) for table in facts.tables]
    live = facts.live
    return {
        "backup": facts.manifest.backup,
        "batch_id": facts.manifest.batch_id,
        "taken_at": facts.manifest.taken_at.isoformat(),
        "files": len(facts.manifest.files),
        "bytes": facts.manifest.size,
        "generation": _unused_generation(facts),
        "parent": facts.manifest.generation,
        "live": None if live is None else live.generation,
        "number": 1 if live is None else live.number + 1,
        "query_id": str(uuid.uuid4()),
        "tables": tables,
    }


def restore_steps(
    target: BackupPlace,
    request: Request,
    plan: Mapping[str, Any],
    origin: tuple[BackupPlace, Manifest],
    restore_table: RestoreTable,
) -> tuple[Step, ...]:
    """1. Copy the checkpoint. 2. Each table. 3. Make the generation the live one.

    Args:
        target: Where to restore.
        request: Whose.
        plan: From `plan_restore`.
        origin: Where the backup lies, and what it holds.
        restore_table: Brings one table back.
    """
    copy = partial(_copy_checkpoint, target, request, plan, origin)
    tables = tuple(
        Step(f"restore {table['table']}", partial(_restore_table, request, plan, table, restore_table))
        for table in plan["tables"]
        if table["to"] is not None
    )
    switch = partial(_switch, target, request, plan)
    return Step("copy checkpoint", copy), *tables, Step("switch generation", switch)


def _plan_table(facts: RestoreFacts, table: TableToRestore) -> dict[str, Any]:
    wanted = facts.manifest.tables.get(table.name)
    newest = table.commits[0].version if table.commits else None
    if wanted is None and newest is not None:
        wanted = _empty_version(table)
    if wanted is not None and (newest is None or newest < wanted):
        raise _refuse_table(table, wanted, newest)
    undone = [commit for commit in standing_commits(table.commits) if commit.version > (wanted or 0)]
    undone = [] if wanted is None else undone
    mine = [commit for commit in undone if _is_batch_of(commit, facts.manifest.pipeline)]
    foreign = [commit for commit in undone if commit not in mine and not changes_no_row(commit)]
    if foreign:
        raise written_by_others(table.path, foreign)
    rows = [commit.rows for commit in mine]
    return {
        "table": table.name,
        "path": table.path,
        "from": newest,
        "to": wanted,
        "batches_undone": len(mine),
        "rows_undone": None if None in rows else sum(count for count in rows if count is not None),
    }


def _unused_generation(facts: RestoreFacts) -> str:
    """A generation that no transaction id in the tables can have, also of tables that came from elsewhere."""
    entries = (commit.entry for table in facts.tables for commit in table.commits)
    written = {e.generation for e in entries if e and e.pipeline == facts.manifest.pipeline and e.generation}
    used = max(int(name[1:]) for name in {facts.manifest.generation, *written})
    return f"g{max(used + 1, int(facts.generation[1:])):04d}"


def _empty_version(table: TableToRestore) -> int:
    """The version of a table that did not exist at the backup: its first one, if that is empty."""
    first = table.commits[-1]
    if first.version != 0 or first.entry is not None or first.rows:
        raise _refuse_table(table, None, table.commits[0].version)
    return 0


def _is_batch_of(commit: Commit, pipeline: str) -> bool:
    entry = commit.entry
    return entry is not None and entry.pipeline == pipeline and entry.mode != "backfill"


def _copy_checkpoint(
    target: BackupPlace, request: Request, plan: Mapping[str, Any], origin: tuple[BackupPlace, Manifest]
) -> None:
    """Copy with a new query id, `metadata` last; a file that is not what was backed up is refused.

    Raises:
        DataError: TIDE-CKPT-047.
    """
    place, manifest = origin
    source = f"{backup_folder(place.layout, manifest.pipeline, manifest.backup)}/{CHECKPOINT}"
    checkpoint = target.layout.checkpoint(request.pipeline, plan["generation"])

    def copy(name: str) -> None:
        content = place.store.read(f"{source}/{name}")
        if content is None or hashlib.sha256(content).hexdigest() != manifest.files[name].sha256:
            raise _damaged(f"{source}/{name}", content)
        target.store.write(f"{checkpoint}/{name}", content)

    with ThreadPoolExecutor(PARALLEL_COPIES) as threads:
        for _ in threads.map(copy, (name for name in manifest.files if name != "metadata")):
            pass
    target.store.write(f"{checkpoint}/metadata", json.dumps({"id": plan["query_id"]}).encode())


def _restore_table(
    request: Request, plan: Mapping[str, Any], table: Mapping[str, Any], restore_table: RestoreTable
) -> None:
    live = plan["live"]
    closes = () if live is None else (transaction_id(request.pipeline, live, table["table"]),)
    # The query id is new with each plan: a given request id may stand in the log of a table that was carried
    # here from a place where it was used before.
    once = f"{request.request_id} {plan['query_id']}"
    wanted = TableRestore(table["path"], table["to"], once, table["from"], closes)
    restore_table(wanted)


def _switch(target: BackupPlace, request: Request, plan: Mapping[str, Any]) -> None:
    versions = {table["table"]: table["to"] for table in plan["tables"]}
    record = Current(
        number=plan["number"],
        pipeline=request.pipeline,
        generation=plan["generation"],
        why=f"restore of {plan['backup']}: {request.why}",
        by=request.by,
        request_id=request.request_id,
        base=Base(generation=plan["parent"], batch_id=plan["batch_id"], tables=versions),
    )
    switch_to(target.store, target.layout, record)


def _refuse_table(table: TableToRestore, wanted: int | None, newest: int | None) -> GateRefusedError:
    return GateRefusedError(
        "TIDE-CKPT-080",
        "The table is not one that this backup can go on with. "
        "Spark would go on after rows that are not there. Nothing was changed.",
        facts={"table": table.path, "newest_version": newest, "version_of_the_backup": wanted},
        fix="bring the table of the backup's time here first, whole, with its _delta_log; "
        "or begin anew: tidemill checkpoint reset",
        runbook="restore-checkpoint",
    )


def _damaged(path: str, content: bytes | None) -> DataError:
    return DataError(
        "TIDE-CKPT-047",
        "A file of the backup is missing or not what was backed up.",
        facts={"file": path, "bytes": None if content is None else len(content)},
        fix="use another backup",
        runbook="restore-checkpoint",
    )
