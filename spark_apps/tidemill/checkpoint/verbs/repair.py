"""`repair`: write `offsets/N` again from the ledger.

Spark's checkpoint files are not exclusive: a fenced driver can still overwrite `offsets/N` after the live
driver has committed batch N to the tables. The ledger is in the tables' own commits, so it records what batch
N really read. Only the newest batches matter, because Spark continues from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.gate import CheckpointFacts, gather_facts
from tidemill.checkpoint.gate.decide import check_integrity
from tidemill.checkpoint.gate.tables import COMPARED_BATCHES
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.procedure.journal import Notes
from tidemill.checkpoint.procedure.trash import trash_folder
from tidemill.checkpoint.reading.log_files import (
    NAMED_HEAD,
    OffsetsFile,
    TornFileError,
    parse_offsets,
)
from tidemill.checkpoint.verbs.tables import Table, read_tables
from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.standing import standing_commits
from tidemill.names import FIRST_GENERATION, Layout, source_name
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


@dataclass(frozen=True)
class RepairFacts:
    """The facts that decide a repair.

    Args:
        generation: The live generation.
        files: Content of the newest files of `offsets/`, by batch.
        entries: Ledger entries of the live generation's newest batches, of all tables.
        checkpoint: The gate's facts.
    """

    generation: str
    files: Mapping[int, bytes]
    entries: tuple[LedgerEntry, ...]
    checkpoint: CheckpointFacts


def gather_repair(store: Store, pipeline: Pipeline) -> RepairFacts:
    """Read the facts; write nothing."""
    live = read_current(store, pipeline.layout, pipeline.name)
    generation = FIRST_GENERATION if live is None else live.generation
    folder = f"{pipeline.layout.checkpoint(pipeline.name, generation)}/offsets"
    numbers = sorted(int(name) for name in store.list_names(folder) if name.isdecimal())
    # One more than is compared, because a torn file takes its settings from the file before it.
    contents = {number: store.read(f"{folder}/{number}") for number in numbers[-COMPARED_BATCHES - 1 :]}
    return RepairFacts(
        generation,
        {number: content for number, content in contents.items() if content is not None},
        tuple(
            e for table in read_tables(pipeline).values() for e in _newest(table, pipeline.name, generation)
        ),
        gather_facts(store, pipeline, generation),
    )


def _newest(table: Table, pipeline: str, generation: str) -> list[LedgerEntry]:
    """Return the newest entries of a generation in a table."""
    entries = (commit.entry for commit in standing_commits(table.commits))
    mine = (e for e in entries if e and (e.pipeline, e.generation) == (pipeline, generation))
    return list(islice(mine, COMPARED_BATCHES + 1))


def plan_repair(facts: RepairFacts) -> dict[str, Any]:
    """Return the files of `offsets/` to write again, with their new content.

    Raises:
        GateRefusedError: TIDE-CKPT-083, if the tables contradict each other; TIDE-CKPT-084, if a torn file
            has no neighbour to take its settings from; as the gate, for damage that the ledger cannot repair.
    """
    batches = sorted(set(facts.files) & {e.batch_id for e in facts.entries if e.batch_id is not None})
    repairs = [_plan_batch(facts, batch_id) for batch_id in batches[-COMPARED_BATCHES:]]
    files = [repair for repair in repairs if repair is not None]
    whole_again = {f"offsets/{file['batch_id']}" for file in files}
    damaged = {name: why for name, why in facts.checkpoint.damaged.items() if name not in whole_again}
    check_integrity(replace(facts.checkpoint, damaged=damaged))
    return {"generation": facts.generation, "files": files}


def repair_steps(store: Store, layout: Layout, request: Request, plan: Mapping[str, Any]) -> tuple[Step, ...]:
    """Return one step per file: keep the old file in the trash, write the new one, delete its checksum."""
    checkpoint = layout.checkpoint(request.pipeline, plan["generation"])
    trash = f"{trash_folder(layout, request.pipeline, request.request_id)}/{plan['generation']}"
    return tuple(
        Step(
            f"offsets/{file['batch_id']}",
            partial(_write, store, checkpoint, trash, file),
            partial(_missing, store, checkpoint, file),
        )
        for file in plan["files"]
    )


def _plan_batch(facts: RepairFacts, batch_id: int) -> dict[str, Any] | None:
    ends = _ends(facts, batch_id)
    content = facts.files[batch_id]
    try:
        found: OffsetsFile | None = parse_offsets(batch_id, content)
    except TornFileError:
        found = None
    recorded = None if found is None else {source_name(key): end for key, end in found.ends.items()}
    # The ledger may know less about one stream, because older entries named only its first use.
    wanted = ends if found is None or found.is_named else {**(recorded or {}), **ends}
    if recorded == wanted and f"offsets/{batch_id}" not in facts.checkpoint.damaged:
        return None
    head = _head(facts, batch_id, torn=recorded is None)
    is_named = head[0] == NAMED_HEAD
    lines = [f"{name}:{_line(end)}" if is_named else _line(end) for name, end in wanted.items()]
    return {
        "batch_id": batch_id,
        "found": recorded,
        "ledger": wanted,
        "content": "\n".join([*head, *lines]),
    }


def _line(end: Any) -> str:
    return "-" if end is None else json.dumps(end, separators=(",", ":"))


def _ends(facts: RepairFacts, batch_id: int) -> dict[str, Any]:
    """Return the end offsets of the batch by source name, on which all tables must agree."""
    recorded = [e.ends for e in facts.entries if e.batch_id == batch_id]
    if any(ends != recorded[0] for ends in recorded):
        raise GateRefusedError(
            "TIDE-CKPT-083",
            "Tables of this pipeline say different things of one batch. Nothing was changed.",
            facts={"batch_id": batch_id, "ends": recorded},
            fix="go back to the batch before it: "
            f"tidemill checkpoint rewind {facts.checkpoint.pipeline} --to {batch_id - 1}",
            runbook="repair-offsets",
        )
    return recorded[0]


def _head(facts: RepairFacts, batch_id: int, *, torn: bool) -> list[str]:
    """Return the version and metadata line: the file's own, or a neighbour's with the batch's watermark."""
    if not torn:
        return facts.files[batch_id].decode().split("\n")[:2]
    for neighbour in (batch_id - 1, batch_id + 1):
        try:
            parse_offsets(neighbour, facts.files.get(neighbour, b""))
        except TornFileError:
            continue
        version, metadata = facts.files[neighbour].decode().split("\n")[:2]
        watermark = next((e.watermark for e in facts.entries if e.batch_id == batch_id), None)
        document = json.loads(metadata)
        document["batchWatermarkMs"] = 0 if watermark is None else int(watermark.timestamp() * 1000)
        return [version, json.dumps(document, separators=(",", ":"))]
    raise GateRefusedError(
        "TIDE-CKPT-084",
        "The file is torn, and so are those beside it. Nothing was changed.",
        facts={"file": f"offsets/{batch_id}"},
        fix=f"restore a backup: tidemill checkpoint restore {facts.checkpoint.pipeline} BACKUP",
        runbook="checkpoint-damaged",
    )


def _missing(store: Store, checkpoint: str, file: Mapping[str, Any], _: Notes) -> str:
    name = f"{checkpoint}/offsets/{file['batch_id']}"
    return "" if store.read(name) == file["content"].encode() else f"the repaired content of {name}"


def _write(store: Store, checkpoint: str, trash: str, file: Mapping[str, Any], _: Notes) -> None:
    name = f"offsets/{file['batch_id']}"
    old = store.read(f"{checkpoint}/{name}")
    if old is not None and old != file["content"].encode():
        # Create, not write: a repeated step must not store the repaired file as the old one.
        store.create(f"{trash}/{name}", old)
    # Delete the checksum file first: a file that contradicts its checksum cannot be read, but a file without
    # a checksum can.
    store.delete(f"{checkpoint}/offsets/.{file['batch_id']}.crc")
    store.write(f"{checkpoint}/{name}", file["content"].encode())
