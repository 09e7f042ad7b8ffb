"""Find changes of the declaration that the checkpoint does not survive.

The facts come from the settings that Spark pinned in the offset log when the query was created, and from the
declaration in the newest ledger entry. The upgrade gate (`checkpoint/upgrade`) checks if a changed transform
still fits the state, because Spark must plan the transform for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.facts import CheckpointFacts
from tidemill.checkpoint.gate.source import kind_of_offsets
from tidemill.checkpoint.reading.log_files import OffsetsFile
from tidemill.checkpoint.upgrade.compare import compare_meanings
from tidemill.ledger.entry import Shape, StreamShape
from tidemill.spec.state_store import PROVIDER_SETTING, PROVIDERS, store_of

_PARTITIONS = "spark.sql.shuffle.partitions"

# Fields of a shape by their effect. `_CLOCK`: a change is never acceptable for a stateful query. `_ANY`: an
# operator must accept the change for every query. `_STATEFUL`: an operator must accept it for a stateful
# query. `_READING`: the fields that decide how records become rows.
_CLOCK = ("event_time", "output_mode")
_ANY = ("path", "format", "streams")
_READING = ("code", "columns", "payload")
_STATEFUL = (*_READING, "watermark", "window")

# Sink settings whose change affects new rows only, because a sink keeps no state between batches.
_OF_A_SINK = ("where of ", "transform of ")


def changes(facts: CheckpointFacts) -> Iterator[Finding]:
    """Compare the declaration and code with those that wrote the checkpoint and tables."""
    yield from _streams(facts)
    yield from _notes(facts)
    for stream in facts.each_stream():
        yield from _source(stream)
    if facts.state.operators:
        yield from _shuffle_partitions(facts)
        yield from _state_store(facts)
        yield from _clock(facts)
        yield from _meanings(facts)


def acceptable_changes(facts: CheckpointFacts) -> Iterator[Finding]:
    """Find changes that are safe if they are intended.

    They are checked last, when everything else is fine.
    """
    yield from _to_accept(facts)
    yield from _worth_a_word(facts)


def unaccepted(facts: CheckpointFacts) -> dict[str, str]:
    """Return the changes that need an operator's approval, each as "old -> new" by name.

    A change counts if new rows would differ in kind from the existing rows. For a stateful query, it also
    counts if the state would differ in kind, so a code change counts as well.
    """
    accepted, now = facts.accepted, facts.declared
    if accepted is not None and accepted.code == now.code and _is_same(accepted.shape, now.shape):
        return {}
    names = (*_ANY, *_STATEFUL) if facts.state.operators else _ANY
    found = {name: change for name, change in _changed(facts).items() if _key(name) in names}
    return {**found, **{n: c for n, c in _changed_sinks(facts).items() if not n.startswith(_OF_A_SINK)}}


def _is_same(accepted: Shape, now: Shape) -> bool:
    """Return True if no field differs that existed when the operator accepted the change."""
    return all(getattr(accepted, name) == getattr(now, name) for name in accepted.model_fields_set)


def _streams(facts: CheckpointFacts) -> Iterator[Finding]:
    """Compare the stream names: the checkpoint stores several streams by name from its creation."""
    newest, declared = _newest(facts), facts.declared.streams
    if newest is None or (not newest.is_named and not declared):
        return
    known = {*newest.ends, *_streams_of_newest_batch(facts)}
    added, gone = sorted(set(declared) - known), sorted(set(newest.ends) - set(declared))
    if newest.is_named and declared and not added and not gone:
        return
    if newest.is_named and declared and not gone and not facts.state.operators:
        # The added stream begins with the next batch, if the operator accepts the change.
        return
    problem = "Streams were added or renamed, or are gone. Spark would never read the rest of those."
    if not newest.is_named or not declared:
        problem = "A pipeline of one stream has several now, or one of several has one. Spark would fail."
    elif not gone:
        problem = (
            "A stream was added, and the state was made without it. Spark could take other state for its."
        )
    yield facts.error(
        "TIDE-CKPT-096",
        problem,
        facts.about(
            checkpoint_streams=sorted(newest.ends) if newest.is_named else "one",
            pipeline_streams=sorted(declared) or "one",
            added=added if newest.is_named else None,
            gone=gone if newest.is_named else None,
        ),
        "take the change back, give the new flow a new name, "
        f"or tidemill checkpoint reset {facts.pipeline} --from earliest",
        runbook="pipeline-changed",
    )


def _streams_of_newest_batch(facts: CheckpointFacts) -> set[str]:
    """Return the declared streams of the newest batch; Spark omits a stream that has had no data."""
    shapes = (found.shape for found in facts.tables.values())
    return set(next((shape.streams for shape in shapes if shape is not None), ()))


def _notes(facts: CheckpointFacts) -> Iterator[Finding]:
    """Refuse notes of continuous processing: they lack the batch metadata line that batches need."""
    newest = _newest(facts)
    if newest is None or not newest.is_note or facts.declared.trigger == "continuous":
        return
    reached = facts.end_of(facts.committed)
    start = "earliest" if reached is None else f"'{json.dumps(reached)}'"
    yield facts.error(
        "TIDE-CKPT-098",
        "The checkpoint was written by continuous processing. Spark 4.2 fails where batches, or real-time "
        "mode, would go on from it.",
        facts.about(note=facts.committed, pipeline_trigger=facts.declared.trigger),
        "put `trigger: {continuous: …}` back; or begin anew where it ended: "
        f"tidemill checkpoint reset {facts.pipeline} --from {start}",
        runbook="pipeline-changed",
    )


def _newest(facts: CheckpointFacts) -> OffsetsFile | None:
    return facts.planned_batches.get(-1 if facts.planned is None else facts.planned)


def _source(facts: CheckpointFacts) -> Iterator[Finding]:
    newest = _newest(facts)
    if newest is None or newest.is_named != bool(facts.stream) or (facts.stream and not newest.ends):
        return
    # A transform that joins its source with itself has a line for each use. The offsets of the uses may
    # differ, because Spark queries each use separately. Spark itself compares the number of uses.
    found = [kind_of_offsets(end) for end in newest.ends.values()]
    if not found or any(kinds and facts.declared.shape.source not in kinds for kinds in found):
        yield facts.error(
            "TIDE-CKPT-025",
            "The pipeline's source is another one than the checkpoint's. "
            "Spark would fail, or take the old offsets for places in the new source.",
            facts.about(
                checkpoint_sources=len(found),
                checkpoint_kind="/".join(sorted(set().union(*found))) or "unknown",
                pipeline_kind=facts.declared.shape.source,
            ),
            "take the change back, give the new flow a new name, "
            f"or tidemill checkpoint reset {facts.pipeline} --from earliest",
            runbook="pipeline-changed",
        )


def _shuffle_partitions(facts: CheckpointFacts) -> Iterator[Finding]:
    newest = _newest(facts)
    pinned = None if newest is None else newest.conf.get(_PARTITIONS)
    declared = facts.declared.shape.shuffle_partitions
    if pinned is not None and pinned != str(declared):
        yield facts.error(
            "TIDE-CKPT-026",
            "`run.shuffle_partitions` was changed, and the state was made with another number. "
            "Spark would ignore the change without a word.",
            facts.about(checkpoint_partitions=int(pinned), pipeline_partitions=declared),
            f"tidemill checkpoint repartition {facts.pipeline} {declared}, or take the change back",
            runbook="pipeline-changed",
        )


def _state_store(facts: CheckpointFacts) -> Iterator[Finding]:
    newest = _newest(facts)
    pinned = None if newest is None else newest.conf.get(PROVIDER_SETTING)
    declared = facts.declared.state_store
    if pinned is not None and pinned != PROVIDERS[declared]:
        yield facts.error(
            "TIDE-CKPT-097",
            "`run.state_store` was changed, and neither store can read what the other has written. "
            "Spark would stay with the old store, and read its files in the format of the new one.",
            facts.about(checkpoint_store=store_of(pinned), pipeline_store=declared),
            f"take the change back, or tidemill checkpoint reset {facts.pipeline} --from earliest",
            runbook="pipeline-changed",
        )


def _clock(facts: CheckpointFacts) -> Iterator[Finding]:
    """Find changes that cannot be accepted because the state would be wrong."""
    found = {n: change for n, change in _changed(facts).items() if _key(n) in _CLOCK}
    if found:
        yield facts.error(
            "TIDE-CKPT-027",
            "The event-time column or the output mode was changed, and the state was made with the old one. "
            "Spark would close windows by the other clock, or write results again.",
            facts.about(changed=found),
            "take the change back, give the new flow a new name, "
            f"or tidemill checkpoint reset {facts.pipeline} --from earliest",
            runbook="pipeline-changed",
        )


def _meanings(facts: CheckpointFacts) -> Iterator[Finding]:
    """Compare the stateful operators of the old and the new code, if both are recorded."""
    meant, means = facts.meant, facts.means
    if meant.meanings and means.meanings and meant.spark == means.spark:
        yield from compare_meanings(facts.pipeline, meant.meanings, means.meanings)


def lacks_meaning(facts: CheckpointFacts) -> bool:
    """Return True if code with state was changed, and Spark has not planned the new code yet."""
    is_new = facts.code not in ("", facts.declared.code)
    return bool(facts.state.operators) and is_new and not facts.means.spark


def _to_accept(facts: CheckpointFacts) -> Iterator[Finding]:
    found = unaccepted(facts)
    if any(finding.severity == "error" for finding in _meanings(facts)):
        # An incompatible operator cannot be accepted.
        return
    meant = f"if that is meant: tidemill checkpoint acknowledge {facts.pipeline}"
    if lacks_meaning(facts):
        meant = f"see whether the state fits the new code: tidemill upgrade check {facts.pipeline}; {meant}"
    if found:
        yield facts.error(
            "TIDE-CKPT-093",
            "Declaration or code was changed, and rows or state are there that were made as it was before. "
            "Spark would go on with both, without a word.",
            facts.about(changed=found),
            f"{meant}; else take the change back",
            runbook="pipeline-changed",
        )


def _worth_a_word(facts: CheckpointFacts) -> Iterator[Finding]:
    """Warn about changes that affect only new rows, as intended."""
    sinks = {name: change for name, change in _changed_sinks(facts).items() if name.startswith(_OF_A_SINK)}
    code = {name: change for name, change in _changed(facts).items() if _key(name) in _READING}
    told = {**({} if facts.state.operators else code), **sinks, **_changed_models(facts)}
    if told:
        yield Finding(
            "TIDE-CKPT-094",
            "warning",
            facts.pipeline,
            "Code, models or conditions were changed since the newest batch. They hold for new rows; those "
            "that are there stay as they are.",
            facts.about(changed=told),
            f"to write older rows again: tidemill backfill plan {facts.pipeline} --from BEGIN --to END",
            runbook="pipeline-changed",
        )


def _key(name: str) -> str:
    return name.partition(" of ")[0]


def _changed(facts: CheckpointFacts) -> dict[str, str]:
    """Return each changed value as "old -> new"; a value missing in the old entry is not compared."""
    found = _changed_values(facts)
    for stream in facts.each_stream() if facts.declared.streams else ():
        of_stream = _changed_values(stream)
        keys = of_stream.keys() & StreamShape.model_fields.keys()
        found |= {f"{key} of {stream.stream}": of_stream[key] for key in sorted(keys)}
    return found


def _changed_values(facts: CheckpointFacts) -> dict[str, str]:
    now = facts.declared
    newest = next((found for found in facts.tables.values() if found.shape is not None), None)
    if newest is None or newest.shape is None:
        return {}
    known = {*_CLOCK, *newest.shape.model_fields_set} & {*_CLOCK, *_ANY, *_STATEFUL}
    pairs = {name: (getattr(newest.shape, name), getattr(now.shape, name)) for name in known}
    if now.streams:
        # Each stream is compared separately; this line compares only the set of streams.
        pairs["streams"] = (", ".join(sorted(newest.shape.streams)), ", ".join(sorted(now.shape.streams)))
    if newest.code is not None and now.code:
        pairs["code"] = (newest.code, now.code)
    return {
        name: f"{old or 'none'} -> {new or 'none'}"
        for name, (old, new) in sorted(pairs.items())
        if old != new
    }


def _changed_models(facts: CheckpointFacts) -> dict[str, str]:
    """Return models that differ from those of the newest batch: an alias or the declaration has changed."""
    before = next((found.models for found in facts.tables.values() if found.models), {})
    now = facts.declared.models
    both = sorted(before.keys() & now.keys())
    return {f"model {name}": f"{before[name]} -> {now[name]}" for name in both if before[name] != now[name]}


def _changed_sinks(facts: CheckpointFacts) -> dict[str, str]:
    """Return the changed settings of each sink that existed before, if the entry recorded them."""
    shape = next((found.shape for found in facts.tables.values() if found.shape is not None), None)
    found = {}
    for sink, old in ({} if shape is None else shape.sinks).items():
        new = facts.declared.shape.sinks.get(sink)
        for name in ("mode", "key", "cdc", "where", "transform"):
            if new is None or name not in old.model_fields_set:
                continue
            before, after = getattr(old, name), getattr(new, name)
            if before != after:
                found[f"{name} of {sink}"] = f"{before or 'none'} -> {after or 'none'}"
    return found
