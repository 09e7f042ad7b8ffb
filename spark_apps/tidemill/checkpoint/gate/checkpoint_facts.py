"""Read the facts from the checkpoint's own files: planned and finished batches, state, and damage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tidemill.checkpoint.gate.checksum import checksum_matches
from tidemill.checkpoint.gate.facts import BatchLog, CheckpointFacts, Declared, StateFacts
from tidemill.checkpoint.gate.tables import COMPARED_BATCHES
from tidemill.checkpoint.reading.log_files import CommitsFile, OffsetsFile
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.errors import GateRefusedError
from tidemill.ledger.code import code_of
from tidemill.ledger.shape import shape_of
from tidemill.names import SOURCE_NAME
from tidemill.spec.project import Pipeline

Found = TypeVar("Found")

# Names that java.lang.Long.parseLong, and so Spark, accepts as a number. Spark never writes some of them
# (such as `007`), so those do not count as batches.
_NUMBER = re.compile(r"[+-]?\d+")


def read_checkpoint(
    reader: CheckpointReader, pipeline: Pipeline, generation: str, until: int | None = None
) -> CheckpointFacts:
    """Read the facts from the checkpoint's own files, up to batch `until` if it is set."""
    damaged: dict[str, str] = {}
    offsets, commits = _log(reader, "offsets", until), _log(reader, "commits", until)
    planned = _planned_batches(reader, offsets, damaged)
    newest_commit = _newest_commit(reader, commits, damaged)
    state = _state(reader, offsets.last, newest_commit, damaged)
    return CheckpointFacts(
        pipeline.name,
        generation,
        declared_by(pipeline),
        query_id=_unless_torn(lambda: reader.query_id, "metadata", damaged),
        offsets=offsets,
        commits=commits,
        planned_batches=planned,
        newest_commit=newest_commit,
        damaged=damaged,
        state=state if until is None else replace(state, left_behind=()),
    )


def _log(reader: CheckpointReader, name: str, until: int | None = None) -> BatchLog:
    prefix = f"{name}/"
    files = {path[len(prefix) :]: file for path, file in reader.names.items() if path.startswith(prefix)}
    batches = [file for file in files if file.isdecimal() and str(int(file)) == file]
    strays = sorted(file for file in files if _NUMBER.fullmatch(file) and file not in set(batches))
    twins = (match[1] for file in files if (match := re.fullmatch(r"\.(\d+)\.crc", file)))
    numbers = sorted(number for number in map(int, batches) if until is None or number <= until)
    return BatchLog(
        tuple(numbers),
        tuple(strays),
        () if until is not None else tuple(sorted(int(n) for n in twins if n not in files)),
        tuple(number for number in numbers if files[str(number)].size == 0),
    )


def _planned_batches(
    reader: CheckpointReader, log: BatchLog, damaged: dict[str, str]
) -> dict[int, OffsetsFile]:
    found: dict[int, OffsetsFile] = {}
    for number in log.numbers[-COMPARED_BATCHES:]:
        file = _unless_torn(partial(reader.offsets, number), f"offsets/{number}", damaged)
        _check_twin(reader, "offsets", number, damaged)
        if file is not None:
            before = found.get(number - 1)
            # Streams are never removed, so a file that lacks a stream was truncated between two lines.
            if before is not None and file.is_named and before.ends.keys() - file.ends.keys():
                damaged.setdefault(f"offsets/{number}", "it lacks a stream that the batch before it has")
            found[number] = file
    return found


def _newest_commit(reader: CheckpointReader, log: BatchLog, damaged: dict[str, str]) -> CommitsFile | None:
    if log.last is None:
        return None
    _check_twin(reader, "commits", log.last, damaged)
    return _unless_torn(partial(reader.commits, log.last), f"commits/{log.last}", damaged)


def _unless_torn(read: Callable[[], Found | None], name: str, damaged: dict[str, str]) -> Found | None:
    try:
        return read()
    except GateRefusedError as error:
        damaged[name] = str(error.__cause__ or error.problem)
        return None


def _check_twin(reader: CheckpointReader, folder: str, number: int, damaged: dict[str, str]) -> None:
    twin = f"{folder}/.{number}.crc"
    if twin not in reader.names:
        return
    content = reader.store.read(f"{reader.path}/{folder}/{number}")
    sums = reader.store.read(f"{reader.path}/{twin}")
    # None means purged since the listing; then the file is no longer among the newest.
    if content is not None and sums is not None and not checksum_matches(content, sums):
        damaged.setdefault(f"{folder}/{number}", f"it does not match its checksum file .{number}.crc")


def _state(
    reader: CheckpointReader, planned: int | None, newest: CommitsFile | None, damaged: dict[str, str]
) -> StateFacts:
    """Return the facts of the state stores: batch N loads version N and writes version N + 1."""
    keys = reader.state.keys
    operators = {key.operator for key in keys} | set(newest.state_ids if newest is not None else ())
    if not operators:
        return StateFacts()
    version = 0 if newest is None else newest.batch_id + 1
    problems = _unless_torn(partial(reader.state_problems, version), f"commits/{version - 1}", damaged)
    missing = [problem.what for problem in problems or ()]
    if newest is not None:
        there = {(key.operator, key.partition) for key in keys}
        wanted = ((op, place) for op, places in newest.state_ids.items() for place in range(len(places)))
        missing += [f"state/{op}/{place} is missing" for op, place in wanted if (op, place) not in there]
    newest_possible = 0 if planned is None else planned + 1
    left_behind = [
        f"{key}/{version}"
        for key, files in reader.state.stores.items()
        for version in files.versions
        if version > newest_possible
    ]
    return StateFacts(tuple(sorted(operators)), version, tuple(missing), tuple(left_behind))


def declared_by(pipeline: Pipeline) -> Declared:
    """Return the part of the pipeline's files that a checkpoint depends on."""
    code = code_of(pipeline)
    whole = Declared(
        shape_of(pipeline.spec),
        code=code.digest,
        models=code.models or {},
        state_store=pipeline.spec.run.state_store,
        trigger=pipeline.spec.run.trigger_of(pipeline.spec.run.mode),
    )
    streams = {
        name: replace(whole, shape=shape_of(stream.spec), topics=_named_topics(stream))
        for name, stream in pipeline.streams.items()
    }
    if pipeline.spec.has_named_streams:
        return replace(whole, streams=streams)
    return streams[SOURCE_NAME]


def _named_topics(pipeline: Pipeline) -> frozenset[str]:
    topics: Iterable[str] | re.Pattern[str] = pipeline.spec.source.topics_or_pattern
    return frozenset() if isinstance(topics, re.Pattern) else frozenset(topics)
