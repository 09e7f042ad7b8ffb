"""G2, G3: check that the checkpoint's own files are whole and belong together.

A killed driver leaves a newest batch that is planned but not committed, `.N.*.tmp` files, a file without its
checksum file, or partly purged old batches. All of these are healthy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.facts import BatchLog, CheckpointFacts

# Kinds of source that record in their folder below `sources/` where they began or which files they have read.
_SOURCES_WITH_LOG = frozenset({"kafka", "eventhubs", "iothub", "files"})


def integrity(facts: CheckpointFacts) -> Iterator[Finding]:
    """Find torn, missing and foreign files."""
    yield from _metadata(facts)
    yield from _damaged(facts)
    for name, log in (("offsets", facts.offsets), ("commits", facts.commits)):
        yield from _foreign(facts, name, log)
    yield from _gaps(facts)
    for stream in facts.each_stream():
        yield from _source_log(stream)
    yield from _old_gaps(facts)


def _metadata(facts: CheckpointFacts) -> Iterator[Finding]:
    began = facts.planned is not None or facts.committed is not None
    if began and facts.query_id is None and "metadata" not in facts.damaged:
        yield facts.error(
            "TIDE-CKPT-010",
            "The checkpoint has lost the id of its query. "
            "Spark would refuse the start; older ones make a new id and write batches twice.",
            facts.about(file="metadata", checkpoint_batch=facts.committed),
            f"tidemill checkpoint restore {facts.pipeline} BACKUP",
            runbook="checkpoint-damaged",
        )


def _damaged(facts: CheckpointFacts) -> Iterator[Finding]:
    for name, reason in facts.damaged.items():
        yield facts.error(
            "TIDE-CKPT-007",
            "A checkpoint file is torn. Spark would fail at the start, at every start.",
            facts.about(file=name, reason=reason),
            _whole_again(facts, name),
            runbook="checkpoint-damaged",
        )


def _whole_again(facts: CheckpointFacts, name: str) -> str:
    folder, _, number = name.partition("/")
    if folder != "offsets":
        return _back_to(facts, int(number) - 1 if number else facts.committed)
    if any(int(number) in table.ends for table in facts.all_tables().values()):
        return f"tidemill checkpoint repair {facts.pipeline}, which writes the file again from the ledger"
    if facts.committed is None:
        return f"tidemill checkpoint reset {facts.pipeline} --from {_beginning(facts)}"
    # The batch is only planned, or it belongs to a pipeline without tables.
    return _back_to(facts, min(int(number) - 1, facts.committed))


def _beginning(facts: CheckpointFacts) -> str:
    """Return the beginning of the checkpoint, as an argument of `reset`."""
    initial = [stream.source.initial for stream in facts.each_stream()]
    offsets = {topic: there for start in initial if start is not None for topic, there in start.items()}
    return "earliest" if None in initial else f"'{json.dumps(offsets)}'"


def _back_to(facts: CheckpointFacts, batch_id: int | None) -> str:
    """Return the operation that leaves the damage behind: a new generation gets whole files only."""
    restore = f"tidemill checkpoint restore {facts.pipeline} BACKUP"
    if batch_id is None or batch_id < 0:
        return restore
    return f"tidemill checkpoint rewind {facts.pipeline} --to {batch_id}, or {restore}"


def _foreign(facts: CheckpointFacts, name: str, log: BatchLog) -> Iterator[Finding]:
    if log.strays:
        yield facts.error(
            "TIDE-CKPT-014",
            "A file in the checkpoint has a name that Spark takes for a batch. It would fail at every start.",
            facts.about(folder=name, files=list(log.strays)),
            "see who put it there, and move it out of the folder",
            runbook="checkpoint-damaged",
        )
    newer = [number for number in log.twins if number > (-1 if log.last is None else log.last)]
    if newer:
        yield facts.error(
            "TIDE-CKPT-013",
            "A checksum file stands without its batch. Spark would plan that batch anew and then claim that "
            "another query runs.",
            facts.about(files=[f"{name}/.{number}.crc" for number in newer]),
            _back_to(facts, facts.committed),
            runbook="checkpoint-damaged",
        )


def _gaps(facts: CheckpointFacts) -> Iterator[Finding]:
    """Find gaps: Spark needs the newest two files of `offsets`, and a commit of each batch but the newest."""
    planned, committed = facts.planned, facts.committed
    if committed is not None and (planned is None or planned < committed):
        yield facts.error(
            "TIDE-CKPT-012",
            "Batches are finished that were never planned. Spark would plan them anew, with other bounds, "
            "and send them to every sink again at each start.",
            facts.about(file=f"offsets/{committed}", planned_batch=planned, checkpoint_batch=committed),
            _back_to(facts, planned),
            runbook="checkpoint-damaged",
        )
    elif _is_noted_ahead(facts):
        if committed is not None and committed not in facts.offsets.numbers:
            yield _gap(facts, [f"offsets/{committed}"])
    elif planned is not None and planned > 0:
        missing = [f"offsets/{planned - 1}"] if planned - 1 not in facts.offsets.numbers else []
        if planned not in facts.commits.numbers and planned - 1 not in facts.commits.numbers:
            missing.append(f"commits/{planned - 1}")
        if missing:
            yield _gap(facts, missing)


def _is_noted_ahead(facts: CheckpointFacts) -> bool:
    """Return True if continuous processing has noted offsets of unfinished rows; it plans no batches."""
    newest = facts.planned_batches.get(-1 if facts.planned is None else facts.planned)
    return newest is not None and newest.is_note and _number(facts.planned) > _number(facts.committed)


def _number(batch_id: int | None) -> int:
    return -1 if batch_id is None else batch_id


def _gap(facts: CheckpointFacts, missing: list[str]) -> Finding:
    return facts.error(
        "TIDE-CKPT-011",
        "A file of the newest batches is missing, or the newest one is a stray. Spark would fail without the "
        "offsets; without the commits it would repeat the newest batch alone and take the others for done.",
        facts.about(missing=missing, planned_batch=facts.planned, checkpoint_batch=facts.committed),
        f"tidemill checkpoint restore {facts.pipeline} BACKUP",
        runbook="checkpoint-damaged",
    )


def _source_log(facts: CheckpointFacts) -> Iterator[Finding]:
    if facts.planned is None or facts.source.log or facts.declared.shape.source not in _SOURCES_WITH_LOG:
        return
    if facts.stream and facts.end_of(facts.planned) is None:
        # The stream was added later, or it has had no data so far.
        return
    yield facts.error(
        "TIDE-CKPT-015",
        "The checkpoint has lost what the source noted in it. "
        "Spark would read files again that it has read, or begin somewhere else.",
        facts.about(folder=f"sources/{facts.stream or 0}", checkpoint_batch=facts.committed),
        f"tidemill checkpoint restore {facts.pipeline} BACKUP",
        runbook="checkpoint-damaged",
    )


def _old_gaps(facts: CheckpointFacts) -> Iterator[Finding]:
    """Find gaps and empty files among old batches; an interrupted purge leaves gaps."""
    for name, log in (("offsets", facts.offsets), ("commits", facts.commits)):
        numbers = log.numbers
        gap = bool(numbers) and len(numbers) != numbers[-1] - numbers[0] + 1
        old = [number for number in log.empty if f"{name}/{number}" not in facts.damaged]
        if gap or old:
            yield Finding(
                "TIDE-CKPT-011",
                "note",
                facts.pipeline,
                "Files of older batches are missing or empty. A start is safe; a rewind to them is not.",
                facts.about(folder=name, oldest=numbers[0], newest=numbers[-1], empty=old),
                f"tidemill checkpoint backup {facts.pipeline}, for what is whole",
                runbook="checkpoint-damaged",
            )
