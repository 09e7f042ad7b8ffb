"""Changed declarations, code and clusters are reported before different rows get mixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.commits import commit_of
from tests.support.gate_facts import DECLARED, SHAPE, errors_of, facts_of, refusal_of, table_of
from tests.support.golden_patient import NAME, TRANSFORM, ran_windowed
from tests.support.patient import ORDERS, Patient
from tidemill.checkpoint.current import Accepted, read_current
from tidemill.checkpoint.gate import CheckpointFacts, examine
from tidemill.checkpoint.gate.facts import StateFacts, TopicFacts
from tidemill.checkpoint.reading.log_files import OffsetsFile
from tidemill.checkpoint.upgrade.version import Meaning, PlannedVersion
from tidemill.ledger.entry import LedgerEntry, Shape, SinkShape, StreamShape, UsedModel, parse_entry
from tidemill.spec.state_store import PROVIDER_SETTING, PROVIDERS, StateStore

FILES = ORDERS.replace(
    "{kafka: {topic: orders}}", "{files: {path: landing/orders, format: json, schema: id long}}"
)
APPLY = ("--reason", "a test", "--apply")
OLD = Shape(
    source="kafka",
    output_mode="append",
    shuffle_partitions=2,
    tables=SHAPE.tables,
    event_time="at",
    path="landing/a",
    format="json",
    columns="id long",
    payload="json",
    watermark="10 minutes",
    window="5 minutes",
    sinks={"bronze/orders": SinkShape(mode="merge", key=("id",), where="")},
)


def changed(
    now: Mapping[str, Any], *, stateful: bool, code: str = "c1", before: Shape = OLD
) -> CheckpointFacts:
    declared = replace(DECLARED, shape=OLD.model_copy(update=dict(now)), code=code)
    table = table_of(3, shape=before, code="c1")
    state = StateFacts((0,), 4) if stateful else StateFacts()
    return replace(facts_of(3, 3, 3), declared=declared, state=state, tables={"bronze/orders": table})


def sink(**now: Any) -> dict[str, Any]:
    old = OLD.sinks["bronze/orders"]
    return {"sinks": {"bronze/orders": old.model_copy(update=now)}}


def windows_of(length: str) -> PlannedVersion:
    """Return the notes of code that counts by windows."""
    counts = Meaning(kind="Aggregate", keys=(f"window(at, {length})",), functions=("Count",))
    return PlannedVersion(meanings=(counts,), spark="4.2.0")


ANY = [
    ({"path": "landing/b"}, "path"),
    ({"format": "csv"}, "format"),
    (sink(key=("id", "at")), "key of bronze/orders"),
    (sink(mode="append", key=()), "mode of bronze/orders"),
]
STATEFUL = [
    ({"watermark": "20 minutes"}, "watermark"),
    ({"window": "1 hour"}, "window"),
    ({"columns": "id long, at timestamp"}, "columns"),
    ({"payload": "csv separated by ','"}, "payload"),
]


@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize(("now", "name"), ANY)
def test_what_makes_rows_of_another_kind_must_be_acknowledged(
    now: Mapping[str, Any], name: str, stateful: bool
) -> None:
    refused = refusal_of(changed(now, stateful=stateful))
    assert (refused.error_id, refused.runbook) == ("TIDE-CKPT-093", "pipeline-changed")
    assert name in refused.facts["changed"]  # type: ignore[operator]


@pytest.mark.parametrize(("now", "name"), STATEFUL)
def test_what_state_was_made_with_must_be_acknowledged(now: Mapping[str, Any], name: str) -> None:
    assert name in refusal_of(changed(now, stateful=True)).facts["changed"]  # type: ignore[operator]
    assert errors_of(changed(now, stateful=False)) == []


@pytest.mark.parametrize(
    ("read", "ran_with", "declared", "added", "gone"),
    [
        # A stream without data so far is in no file of `offsets/`.
        (["a"], ["a", "b"], ["a", "b"], None, None),
        (["a", "b"], ["a", "b"], ["a", "b"], None, None),
        (["a"], ["a"], ["a", "b"], ["b"], []),
        (["a"], ["a", "b"], ["a", "b", "c"], ["c"], []),
        (["a", "b"], ["a", "b"], ["a", "c"], ["c"], ["b"]),
        (["a"], ["a", "b"], ["a"], None, None),
    ],
)
def test_a_stream_that_had_no_data_yet_was_not_added(
    read: list[str],
    ran_with: list[str],
    declared: list[str],
    added: list[str] | None,
    gone: list[str] | None,
) -> None:
    shape = SHAPE.model_copy(update={"streams": {name: StreamShape() for name in ran_with}})
    facts = replace(
        facts_of(3, 3, 3),
        planned_batches={3: OffsetsFile(3, 2, {name: {"logOffset": 3} for name in read})},
        declared=replace(DECLARED, streams=dict.fromkeys(declared, DECLARED)),
        state=StateFacts((0,), 4),
        tables={"bronze/orders": table_of(3, shape=shape)},
    )
    found = [error for error in examine(facts) if error.finding_id == "TIDE-CKPT-096"]
    assert [(error.facts["added"], error.facts["gone"]) for error in found] == (
        [] if added is None else [(added, gone)]
    )


def test_changed_code_is_a_warning_and_for_state_a_refusal() -> None:
    (warning,) = examine(changed({}, stateful=False, code="c2"))
    assert (warning.finding_id, warning.severity) == ("TIDE-CKPT-094", "warning")
    assert warning.facts["changed"] == {"code": "c1 -> c2"}
    assert refusal_of(changed({}, stateful=True, code="c2")).facts["changed"] == {"code": "c1 -> c2"}


@pytest.mark.parametrize("stateful", [True, False])
def test_another_condition_of_a_sink_is_a_warning(stateful: bool) -> None:
    (warning,) = examine(changed(sink(where="id > 1"), stateful=stateful))
    assert (warning.finding_id, warning.severity) == ("TIDE-CKPT-094", "warning")


@pytest.mark.parametrize("stateful", [True, False])
def test_another_transform_of_a_sink_is_a_warning_where_the_old_one_was_known(stateful: bool) -> None:
    now = sink(transform="orders:latest")
    assert examine(changed(now, stateful=stateful)) == []
    known = OLD.model_copy(update=sink(transform=""))
    (warning,) = examine(changed(now, stateful=stateful, before=known))
    assert warning.facts["changed"] == {"transform of bronze/orders": "none -> orders:latest"}


@pytest.mark.parametrize("stateful", [True, False])
def test_another_model_is_a_warning_where_a_driver_knows_which_it_is(stateful: bool) -> None:
    one, two = (UsedModel(uri="models:/f@c", version=n, digest=f"sha256:{n * 64}") for n in "12")
    facts = changed({}, stateful=stateful)
    table = replace(facts.tables["bronze/orders"], models={"fraud": one, "gone": one})
    facts = replace(facts, tables={"bronze/orders": table})
    # The command line asks no registry.
    assert examine(facts) == []
    facts = replace(facts, declared=replace(facts.declared, models={"fraud": two, "new": two}))
    (warning,) = examine(facts)
    assert (warning.finding_id, warning.severity) == ("TIDE-CKPT-094", "warning")
    before, after = "models:/f@c version 1 sha256:111111111111", "models:/f@c version 2 sha256:222222222222"
    assert warning.facts["changed"] == {"model fraud": f"{before} -> {after}"}


@pytest.mark.parametrize(("now", "name"), [*ANY, *STATEFUL])
def test_what_a_person_has_accepted_is_no_reason_until_it_changes_again(
    now: Mapping[str, Any], name: str
) -> None:
    facts = changed(now, stateful=True, code="c2")
    accepted = Accepted(shape=facts.declared.shape, code="c2")
    assert errors_of(replace(facts, accepted=accepted)) == []
    assert errors_of(replace(facts, accepted=accepted.model_copy(update={"code": "c3"}))) != []


def test_what_a_release_did_not_know_when_a_person_accepted_is_not_asked_again() -> None:
    facts = changed({"path": "landing/b"}, stateful=True)
    known = facts.declared.shape.model_dump(exclude={"payload"})
    assert errors_of(replace(facts, accepted=Accepted(shape=Shape.model_validate(known), code="c1"))) == []


def test_another_payload_is_a_warning_for_a_stateless_pipeline() -> None:
    (warning,) = examine(changed({"payload": "text"}, stateful=False))
    assert warning.finding_id == "TIDE-CKPT-094"
    assert warning.facts["changed"] == {"payload": "json -> text"}


def test_another_clock_cannot_be_accepted() -> None:
    facts = changed({"event_time": "seen_at"}, stateful=True)
    accepted = Accepted(shape=facts.declared.shape, code="c1")
    assert refusal_of(replace(facts, accepted=accepted)).error_id == "TIDE-CKPT-027"


@pytest.mark.parametrize(
    ("stateful", "now", "refused"),
    [(True, "memory", True), (True, "rocksdb", False), (False, "memory", False)],
)
def test_another_state_store_is_refused_where_there_is_state(
    stateful: bool, now: StateStore, refused: bool
) -> None:
    facts = changed({}, stateful=stateful)
    planned = {
        number: replace(file, conf={PROVIDER_SETTING: PROVIDERS["rocksdb"]})
        for number, file in facts.planned_batches.items()
    }
    declared = replace(facts.declared, state_store=now)
    found = [
        f
        for f in examine(replace(facts, planned_batches=planned, declared=declared))
        if f.severity == "error"
    ]
    assert [finding.finding_id for finding in found] == ["TIDE-CKPT-097"] * refused
    told = ({f.facts["checkpoint_store"], f.facts["pipeline_store"]} for f in found)
    assert all(stores == {"rocksdb", "memory"} for stores in told)


def test_what_was_not_known_then_is_not_compared() -> None:
    entry = commit_of(1).entry.model_copy(update={"shape": OLD})
    assert isinstance(stored(entry).shape, Shape)
    older = Shape(source="kafka", output_mode="append", shuffle_partitions=2, event_time="at")
    known = stored(entry.model_copy(update={"shape": older.model_copy(update={})}))
    assert known.shape is not None
    before = Shape.model_validate(older.model_dump(include=older.model_fields_set))
    assert errors_of(changed({}, stateful=True, before=before)) == []


def test_an_entry_knows_no_more_of_a_sink_than_the_one_it_was_copied_from() -> None:
    entry = stored(commit_of(1).entry.model_copy(update={"shape": OLD}))
    assert entry.shape is not None
    assert entry.shape.sinks["bronze/orders"].model_fields_set == {"mode", "key", "where"}


def stored(entry: LedgerEntry) -> LedgerEntry:
    found = parse_entry(entry.to_text())
    assert found is not None
    return found


def test_what_is_not_declared_is_known_not_to_be() -> None:
    entry = stored(commit_of(1).entry.model_copy(update={"shape": OLD.model_copy(update={"watermark": ""})}))
    assert entry.shape is not None
    facts = changed({"watermark": "10 minutes"}, stateful=True, before=entry.shape)
    assert refusal_of(facts).facts["changed"] == {"watermark": "none -> 10 minutes"}


def test_offsets_of_another_cluster_are_refused() -> None:
    topics = TopicFacts({"orders": {"0": 0}}, {"orders": {"0": 99}}, cluster="north")
    facts = facts_of(3, 3, 3)
    facts = replace(facts, source=replace(facts.source, topics=topics))
    for known, refused in (("south", True), ("north", False), (None, False)):
        seen = replace(facts, tables={"bronze/orders": table_of(3, cluster=known)})
        assert ["TIDE-CKPT-095"] * refused == [finding.finding_id for finding in errors_of(seen)]


def test_a_changed_folder_is_refused_until_it_is_acknowledged(patient: Patient) -> None:
    patient.declare(FILES)
    for folder in ("orders", "others"):
        (patient.drivers.folder / f".data/landing/{folder}").mkdir(parents=True)
        (patient.drivers.folder / f".data/landing/{folder}/1.json").write_text('{"id": 1}\n')
    patient.went_on(2)
    patient.redeclare("landing/orders", "landing/others")
    assert set(patient.findings()) == {"TIDE-CKPT-093"}
    before = read_current(patient.batches.store, patient.pipeline.layout, "orders")
    assert patient.tidemill("checkpoint", "acknowledge", "orders") == 0, patient.tidemill.err
    assert "path: landing/orders -> landing/others" in patient.tidemill.out
    assert set(patient.findings()) == {"TIDE-CKPT-093"}
    assert patient.tidemill("checkpoint", "acknowledge", "orders", *APPLY) == 0, patient.tidemill.err
    assert patient.findings() == {}
    after = read_current(patient.batches.store, patient.pipeline.layout, "orders")
    assert before is not None
    assert after is not None
    assert (after.generation, after.number) == (before.generation, before.number + 1)
    patient.went_on()
    assert patient.tidemill("checkpoint", "acknowledge", "orders", *APPLY) == 0
    assert "nothing was changed" in patient.tidemill.out


def test_code_of_a_stateful_pipeline_is_acknowledged_or_meant_by_a_verb(patient: Patient) -> None:
    ran_windowed(patient)
    assert patient.findings() == {}
    file = patient.drivers.folder / f"spark_apps/transforms/{NAME}.py"
    file.write_text(TRANSFORM.replace("count", "approx_count_distinct"))
    assert set(patient.findings()) == {"TIDE-CKPT-093"}
    verb = ("checkpoint", "rewind", NAME, "--to", "3")
    assert patient.tidemill(*verb) == 0, patient.tidemill.err
    assert "changed since, and from here on: code: " in patient.tidemill.out
    assert patient.tidemill(*verb, *APPLY) == 0, patient.tidemill.err
    assert patient.findings() == {}


@pytest.mark.parametrize("accepted", [False, True])
def test_state_by_windows_of_another_length_is_refused_also_if_it_was_accepted(accepted: bool) -> None:
    """And no finding advises to accept it."""
    facts = changed({}, stateful=True, code="c2")
    known = replace(facts, meant=windows_of("5 minutes"), means=windows_of("10 minutes"))
    if accepted:
        known = replace(known, accepted=Accepted(shape=known.declared.shape, code="c2"))
    assert [finding.finding_id for finding in errors_of(known)] == ["TIDE-CTRL-085"]
    assert not any("acknowledge" in finding.fix for finding in examine(known))


def test_changed_code_with_state_is_accepted_once_spark_has_planned_it() -> None:
    facts = changed({}, stateful=True, code="c2")
    unknown = refusal_of(facts)
    assert (unknown.error_id, "tidemill upgrade check orders" in unknown.fix) == ("TIDE-CKPT-093", True)
    known = refusal_of(replace(facts, meant=windows_of("5 minutes"), means=windows_of("5 minutes")))
    assert known.fix.startswith("if that is meant: tidemill checkpoint acknowledge orders")


def test_the_cluster_is_compared_with_what_the_broker_says(patient: Patient) -> None:
    patient.cluster = "south"
    patient.ran(2)
    patient.has_broker(cluster="south")
    assert patient.findings() == {}
    patient.has_broker(cluster="north")
    assert set(patient.findings()) == {"TIDE-CKPT-095"}
