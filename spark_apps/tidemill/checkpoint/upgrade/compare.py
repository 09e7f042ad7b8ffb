"""Compare the state that a new version would keep with the existing state. Pure.

Spark compares types by position and ignores names. It refuses some differences only at the first batch, when
the old version is already gone, and silently goes wrong with others. Both kinds are found here in advance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from tidemill.checkpoint.findings import Finding, Severity
from tidemill.checkpoint.reading.state_schema import StateColumn, StateTable
from tidemill.checkpoint.upgrade.version import KeptState, Meaning, PlannedVersion

RUNBOOK = "upgrade"

# Differences that Spark itself refuses. They already imply a different meaning, so it is not reported again.
_OTHER_COLUMNS = ("TIDE-CTRL-081", "TIDE-CTRL-082")


@dataclass(frozen=True)
class UpgradeFacts:
    """A checkpoint and the version that is to continue from it.

    Args:
        pipeline: Name of the pipeline.
        kept: Stateful operators of the checkpoint.
        meant: Their meaning when the newest batch was written; empty if unknown.
        planned: The new version.
        is_new_code: True if the newest batch was written by other code.
    """

    pipeline: str
    kept: tuple[KeptState, ...]
    planned: PlannedVersion
    meant: tuple[Meaning, ...] = field(default=())
    is_new_code: bool = True


def compare(facts: UpgradeFacts) -> list[Finding]:
    """Return all reasons against the new version; empty if it finds the state that it would keep."""
    operators = list(_operators(facts))
    if operators:
        # Different operators imply different columns and meanings, which are not reported again.
        return operators
    tables = list(_tables(facts))
    has_other_columns = any(finding.finding_id in _OTHER_COLUMNS for finding in tables)
    return [*tables, *_partitions(facts), *(() if has_other_columns else _meanings(facts))]


def compare_meanings(pipeline: str, before: Sequence[Meaning], after: Sequence[Meaning]) -> Iterator[Finding]:
    """Yield the differences between what the stateful operators of two versions compute, in plan order."""
    for old, new in zip_longest(before, after):
        yield from _of_meaning(pipeline, old, new)


def _operators(facts: UpgradeFacts) -> Iterator[Finding]:
    before = {state.number: state.name for state in facts.kept}
    after = {state.number: state.name for state in facts.planned.operators}
    if before != after:
        yield _error(
            facts.pipeline,
            "TIDE-CTRL-080",
            "The new version has other stateful operators than the checkpoint has state of. "
            "Spark would refuse it, or begin one of them without the state that it needs.",
            {"checkpoint_operators": _named(before), "new_operators": _named(after)},
        )


def _named(operators: dict[int, str]) -> str:
    return ", ".join(f"{number} {name}" for number, name in sorted(operators.items())) or "none"


def _tables(facts: UpgradeFacts) -> Iterator[Finding]:
    planned = {state.number: state for state in facts.planned.operators}
    for state in facts.kept:
        after = planned[state.number]
        yield from _unread(facts, state, after)
        yield from _differences(facts, state, after)
        yield from _settings(facts, state, after)


def _unread(facts: UpgradeFacts, before: KeptState, after: KeptState) -> Iterator[Finding]:
    if before.unread or after.unread:
        yield _error(
            facts.pipeline,
            "TIDE-CTRL-088",
            "Which columns an operator keeps cannot be read, so they cannot be compared: a file of the "
            "schema is missing or damaged, or this Spark writes it in a way that is not known here.",
            {
                "operator": _label(before),
                "unread_in_checkpoint": ", ".join(before.unread) or "none",
                "unread_of_new": ", ".join(after.unread) or "none",
            },
        )


def _settings(facts: UpgradeFacts, before: KeptState, after: KeptState) -> Iterator[Finding]:
    """Compare `transformWithState`. A new state begins empty; a removed state is no longer read."""
    changed = {
        name: f"{value} -> {after.settings[name]}"
        for name, value in before.settings.items()
        if name in after.settings and after.settings[name] != value
    }
    if changed:
        yield _error(
            facts.pipeline,
            "TIDE-CTRL-082",
            "`transformWithState` keeps a state of another kind, or runs in another mode. "
            "Spark would refuse it.",
            {"operator": _label(before), "changed": changed},
        )
    gone, new = before.settings.keys() - after.settings.keys(), after.settings.keys() - before.settings.keys()
    if gone and new:
        yield _error(
            facts.pipeline,
            "TIDE-CTRL-083",
            "States of `transformWithState` have other names. Spark would begin the new ones empty, and "
            "leave what the old ones hold unread, without a word.",
            {
                "operator": _label(before),
                "checkpoint": ", ".join(sorted(gone)),
                "new": ", ".join(sorted(new)),
            },
        )


def _label(state: KeptState) -> str:
    return f"{state.number} {state.name}"


def _differences(facts: UpgradeFacts, before: KeptState, after: KeptState) -> Iterator[Finding]:
    """Compare tables in both versions. A new table begins empty; a removed table is no longer read."""
    new = {table.name: table for table in after.tables}
    if before.stores != after.stores:
        yield _error(
            facts.pipeline,
            "TIDE-CTRL-081",
            "An operator keeps its state in other stores. Spark would refuse it.",
            {"operator": _label(before), "checkpoint": before.stores, "new": after.stores},
        )
        return
    for table in before.tables:
        if table.name in new:
            yield from _of_table(facts, before, table, new[table.name])


def _of_table(
    facts: UpgradeFacts, state: KeptState, before: StateTable, after: StateTable
) -> Iterator[Finding]:
    for part, old, new in (("key", before.key, after.key), ("value", before.value, after.value)):
        about = {
            "operator": _label(state),
            "store": before.name,
            "part": part,
            "checkpoint": ", ".join(map(str, old)),
            "new": ", ".join(map(str, new)),
        }
        if any(not _fits(*pair) for pair in zip_longest(old, new)):
            yield _error(
                facts.pipeline,
                "TIDE-CTRL-081",
                "The state of an operator has other columns than the checkpoint's. "
                "Spark would refuse the new version at its first batch.",
                about,
            )
        elif _names(old) != _names(new) and not _is_same(facts, state):
            yield _error(
                facts.pipeline,
                "TIDE-CTRL-083",
                "Columns of state have other names. Spark goes by their places, and would take the values "
                "of one for those of another without a word.",
                about,
            )


def _names(columns: tuple[StateColumn, ...]) -> list[str]:
    return [column.name for column in columns]


def _fits(old: StateColumn | None, new: StateColumn | None) -> bool:
    """Return True if Spark accepts it: same type and position, and no nulls where there were none."""
    if old is None or new is None:
        return False
    return old.type == new.type and (old.nullable or not new.nullable)


def _is_same(facts: UpgradeFacts, state: KeptState) -> bool:
    """Return True if the operators are known to compute the same, despite different column names.

    Only the code of a `transformWithState` knows the meaning of its columns, and only that operator has
    settings.
    """
    return not state.settings and bool(facts.meant) and facts.meant == facts.planned.meanings


def _partitions(facts: UpgradeFacts) -> Iterator[Finding]:
    after = {state.number: state.partitions for state in facts.planned.operators}
    changed = {
        f"{state.number} {state.name}": f"{state.partitions} -> {after[state.number]}"
        for state in facts.kept
        if after[state.number] != state.partitions
    }
    if changed:
        number = max(after.values())
        yield _error(
            facts.pipeline,
            "TIDE-CTRL-084",
            "The state is in another number of partitions. Spark would stay with the old number.",
            {"changed": changed},
            f"tidemill checkpoint repartition {facts.pipeline} {number}, or take the change back",
        )


def _meanings(facts: UpgradeFacts) -> Iterator[Finding]:
    if not facts.meant:
        if facts.kept and facts.is_new_code:
            yield _unknown_meanings(facts)
        return
    yield from compare_meanings(facts.pipeline, facts.meant, facts.planned.meanings)


def _unknown_meanings(facts: UpgradeFacts) -> Finding:
    return _finding(
        facts.pipeline,
        ("TIDE-CTRL-086", "warning"),
        "Nobody has noted what the operators of the running code compute: an older release, or another "
        "Spark, has started it. Whether keys, windows and functions mean the same is for a person to know.",
        {"operators": _named({state.number: state.name for state in facts.kept})},
        "compare both versions of the transform, or restart the old one first to have it noted",
    )


def _of_meaning(pipeline: str, before: Meaning | None, after: Meaning | None) -> Iterator[Finding]:
    if before is None or after is None or (before.kind, before.keys) != (after.kind, after.keys):
        yield _error(
            pipeline,
            "TIDE-CTRL-085",
            "The key of the state means something else, such as windows of another length. Spark would go "
            "on with keys of both kinds without a word.",
            {"checkpoint": _keys(before), "new": _keys(after)},
        )
    elif before.functions != after.functions:
        yield _error(
            pipeline,
            "TIDE-CTRL-085",
            "Other functions are computed of the same columns of state. Spark would go on with the values "
            "of the old ones without a word.",
            {"checkpoint": ", ".join(before.functions), "new": ", ".join(after.functions)},
        )
    elif before.inputs != after.inputs:
        yield _finding(
            pipeline,
            ("TIDE-CTRL-087", "warning"),
            "What goes into the state is computed in another way. Values of both kinds are in it until the "
            "old ones are through.",
            {"checkpoint": ", ".join(before.inputs), "new": ", ".join(after.inputs)},
            "if that is not meant, take the change back; for state of one kind: "
            f"tidemill checkpoint reset {pipeline} --from earliest",
        )


def _keys(meaning: Meaning | None) -> str:
    return "none" if meaning is None else f"{meaning.kind} by {', '.join(meaning.keys) or 'nothing'}"


def _error(
    pipeline: str, finding_id: str, problem: str, about: Mapping[str, object], fix: str = ""
) -> Finding:
    anew = (
        f"take the change back, or begin anew beside what there is: "
        f"tidemill checkpoint reset {pipeline} --from earliest"
    )
    return _finding(pipeline, (finding_id, "error"), problem, about, fix or anew)


def _finding(
    pipeline: str, what: tuple[str, Severity], problem: str, about: Mapping[str, object], fix: str
) -> Finding:
    return Finding(*what, pipeline, problem, {"pipeline": pipeline, **about}, fix, RUNBOOK)
