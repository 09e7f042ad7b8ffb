"""`reset`: a new generation without batches, that begins where one says.

Spark's Kafka source takes the beginning of a query from `sources/0/0`, before it looks at any option; a
checkpoint that has this file and a query id, and nothing else, begins there with batch 0. State begins empty.
The tables stay as they are, so the plan says which records will never be in them, and which twice.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.checkpoint.current import Base, Current, switch_generation
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.verbs.table_points import TablePoint
from tidemill.errors import GateRefusedError, UsageError
from tidemill.names import Layout
from tidemill.storage.store import Store

# {topic: {partition: offset}}; an end is exclusive.
Positions = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class ResetFacts:
    """What a reset is decided from.

    Args:
        live: Record of the live generation; None before the first start.
        generation: Unused name.
        start: First offset to read of each partition; None for a source that is not Kafka's, which begins
            as its declaration says.
        points: Where each table stands.
        stateful: Whether windows or other state will begin empty.
        topics: That the pipeline reads now; None if a pattern says it.
        asked: Whether the broker was asked for `start`: it names all partitions that there are.
    """

    live: Current | None
    generation: str
    start: Positions | None
    points: tuple[TablePoint, ...] = ()
    stateful: bool = False
    topics: frozenset[str] | None = None
    asked: bool = False

    def is_gone(self, topic: str, partition: str) -> bool:
        """Whether nothing more is to be read of a partition that was read before."""
        if self.start is None or partition in self.start.get(topic, {}):
            return False
        return self.asked or (self.topics is not None and topic not in self.topics)


def plan_reset(facts: ResetFacts) -> dict[str, Any]:
    """The new generation, and for each table and partition what the new beginning means.

    Raises:
        UsageError: TIDE-CKPT-041 if there is nothing to reset, TIDE-CKPT-043 if a partition has no beginning.
    """
    if facts.live is None:
        raise UsageError(
            "TIDE-CKPT-041",
            "This pipeline has never run; there is nothing to reset.",
            fix="name starting_offsets in its file, and start it",
        )
    partitions = [] if facts.start is None else list(_partitions(facts, facts.start))
    _check_complete(partitions)
    return {
        "generation": facts.generation,
        "parent": facts.live.generation,
        "number": facts.live.number + 1,
        "query_id": str(uuid.uuid4()),
        "start": facts.start,
        "tables": {point.table: point.version for point in facts.points},
        "partitions": partitions,
        "never_read": sum(row["never_read"] for row in partitions),
        "read_again": sum(row["read_again"] for row in partitions),
        "state_is_lost": facts.stateful,
    }


def reset_steps(store: Store, layout: Layout, request: Request, plan: Mapping[str, Any]) -> tuple[Step, ...]:
    """1. Write the new checkpoint. 2. Make it the live one."""
    checkpoint = layout.checkpoint(request.pipeline, plan["generation"])
    return (
        Step("write checkpoint", partial(_write_checkpoint, store, checkpoint, plan)),
        Step("switch generation", partial(_switch, store, layout, request, plan)),
    )


def switch_to(store: Store, layout: Layout, record: Current) -> None:
    """Make a verb's generation the live one; done before is done.

    Raises:
        GateRefusedError: TIDE-CKPT-042, if somebody else has changed the generation since the plan.
    """
    if switch_generation(store, layout, record):
        return
    path = f"{layout.current(record.pipeline)}/{record.number:08d}.json"
    there = Current.model_validate(store.read_json(path))
    if there.request_id != record.request_id:
        raise GateRefusedError(
            "TIDE-CKPT-042",
            "The live generation has been changed since the plan was made. This request went no further.",
            facts={"pipeline": record.pipeline, "generation": there.generation, "by": there.by},
            fix="release the hold with --force, and plan again",
            runbook="unfinished-procedure",
        )


def _write_checkpoint(store: Store, checkpoint: str, plan: Mapping[str, Any]) -> None:
    store.write(f"{checkpoint}/metadata", json.dumps({"id": plan["query_id"]}).encode())
    if plan["start"] is not None:
        # As Spark's KafkaSourceInitialOffsetWriter does: a NUL, the version, then the offsets.
        offsets = json.dumps(plan["start"], separators=(",", ":"))
        store.write(f"{checkpoint}/sources/0/0", b"\0v1\n" + offsets.encode())


def _switch(store: Store, layout: Layout, request: Request, plan: Mapping[str, Any]) -> None:
    record = Current(
        number=plan["number"],
        pipeline=request.pipeline,
        generation=plan["generation"],
        why=f"reset: {request.why}",
        by=request.by,
        request_id=request.request_id,
        base=Base(generation=plan["parent"], tables=plan["tables"]),
    )
    switch_to(store, layout, record)


def _partitions(facts: ResetFacts, start: Positions) -> Iterable[dict[str, Any]]:
    """One row for each table and partition of the new beginning, and of what the table knows."""
    for point in facts.points:
        ends = _positions(point)
        # A table that the live side has not written, such as an empty quarantine, says nothing.
        for topic in sorted({*start, *ends}) if ends else ():
            known, new = ends.get(topic, {}), start.get(topic, {})
            for partition in sorted({*known, *new}, key=int):
                row = _row(point.table, topic, partition, (known.get(partition), new.get(partition)))
                yield {**row, "gone": facts.is_gone(topic, partition)}


def _check_complete(partitions: Iterable[Mapping[str, Any]]) -> None:
    unnamed = (row for row in partitions if row["begins_at"] is None and not row["gone"])
    missing = sorted({f"{row['topic']}-{row['partition']}" for row in unnamed})
    if missing:
        raise UsageError(
            "TIDE-CKPT-043",
            "Partitions that the pipeline has read have no beginning. Spark would read them as new ones, "
            "from their oldest record.",
            facts={"missing": ", ".join(missing)},
            fix="name an offset for each partition; -2 is earliest, -1 is latest",
        )


def _row(table: str, topic: str, partition: str, offsets: tuple[int | None, int | None]) -> dict[str, Any]:
    stands, begins = offsets
    ahead = 0 if stands is None or begins is None else begins - stands
    return {
        "table": table,
        "topic": topic,
        "partition": partition,
        "stands_at": stands,
        "begins_at": begins,
        "never_read": max(0, ahead),
        "read_again": max(0, -ahead),
    }


def _positions(point: TablePoint) -> dict[str, dict[str, int]]:
    documents = [document for document in point.ends.values() if isinstance(document, dict)]
    return {
        topic: {str(partition): int(offset) for partition, offset in partitions.items()}
        for document in documents
        for topic, partitions in document.items()
        if isinstance(partitions, dict)
    }
