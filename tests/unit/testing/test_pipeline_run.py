"""A test's inputs and the errors for typos; no pipeline runs here."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.conf_project import ConfProject
from tidemill import testing
from tidemill.errors import SpecError, UsageError
from tidemill.testing import PipelineRun, Record

SINKS = """sinks:
  - delta: {table: bronze/orders}"""


@pytest.fixture
def project(tmp_path: Path) -> ConfProject:
    return ConfProject(tmp_path / "project")


def opened(project: ConfProject, name: str = "orders") -> PipelineRun:
    """Return the pipeline. A session is needed only to advance."""
    file = project.folder / f"conf/pipelines/{name}.yaml"
    return testing.pipeline(file, project.folder.parent / "data", None)  # type: ignore[arg-type]


def stored(run: PipelineRun, table: str = "") -> list[dict[str, Any]]:
    path = run.resolved.layout.table(table or f"input/{run.declared.name}/source")
    return [row for batch in DeltaTable(path).to_pyarrow_dataset().to_batches() for row in batch.to_pylist()]


def refusal(call: Any, *arguments: Any, **named: Any) -> UsageError:
    with pytest.raises(UsageError) as refused:
        call(*arguments, **named)
    return refused.value


def test_an_unknown_table_is_refused_with_the_near_one(project: ConfProject) -> None:
    run = opened(project)
    error = refusal(run.table, "bronze/order")
    assert error.error_id == "TIDE-TEST-001"
    assert error.facts == {"name": "bronze/order", "known": "bronze/orders"}
    assert error.fix == "did you mean bronze/orders?"
    assert run.table("bronze/orders") == []


def test_a_sink_that_is_no_table_is_known_by_its_place(project: ConfProject) -> None:
    project.replace(SINKS, f"{SINKS}\n  - kafka: {{topic: large, where: id > 'x'}}\n  - console: {{}}")
    run = opened(project)
    assert run.sent("topic large") == run.sent("console") == []
    error = refusal(run.sent, "topic lagre")
    assert (error.error_id, error.fix) == ("TIDE-TEST-001", "did you mean topic large?")
    table, topic, console = run.resolved.spec.sinks
    assert table.delta is not None
    assert topic.memory is not None
    assert topic.memory.where == "id > 'x'"
    assert console.memory is not None
    error = refusal(run.topic_of, "large")
    assert error.error_id == "TIDE-TEST-004"
    assert "sent('topic large')" in error.fix


def test_an_unknown_source_is_refused_with_the_near_one(project: ConfProject) -> None:
    error = refusal(opened(project).add_rows, [{"id": "a"}], to="sorce")
    assert (error.error_id, error.fix) == ("TIDE-TEST-002", "did you mean source?")


@pytest.mark.parametrize(
    ("row", "reason", "fix"),
    [
        ({"id": 7}, "wrong_type:id", "correct the row; to see what becomes"),
        ({"at": "2024-01-01T00:00:00Z"}, "missing_required:id", "correct the row"),
        ({"idd": "a"}, "unknown column idd", "did you mean id?"),
        ({"id": "a", "at": {1, 2}}, "a value of type set is none of JSON's", "use values that JSON has"),
        ({"id": "a", "at": float("nan")}, "Out of range float values", "use values that JSON has"),
    ],
)
def test_a_row_that_does_not_fit_the_payload_is_refused(
    project: ConfProject, row: dict[str, Any], reason: str, fix: str
) -> None:
    run = opened(project)
    error = refusal(run.add_rows, [{"id": "good"}, row])
    assert error.error_id == "TIDE-TEST-003"
    assert error.facts["row"] == 1
    assert str(error.facts["reason"]).startswith(reason)
    assert error.fix.startswith(fix)
    run.put()
    assert stored(run) == []


def test_rows_and_payloads_are_records_with_places_in_their_order(project: ConfProject) -> None:
    run = opened(project)
    at = datetime(2024, 1, 1, tzinfo=UTC)
    run.add_rows([{"id": "a", "at": at}])
    run.add_payloads([b"{broken", None, Record(b"{}", key=b"k", partition=3)])
    run.put()
    rows = stored(run)
    assert [row["kafka_value"] for row in rows] == [
        b'{"id": "a", "at": "2024-01-01T00:00:00+00:00"}',
        b"{broken",
        None,
        b"{}",
    ]
    assert [(row["kafka_partition"], row["kafka_offset"]) for row in rows] == [(0, 0), (0, 1), (0, 2), (3, 3)]
    assert {row["kafka_topic"] for row in rows} == {"orders"}
    assert rows[3]["kafka_key"] == b"k"
    again = opened(project)
    again.add_payloads([b"later"])
    again.put()
    assert sorted(row["kafka_offset"] for row in stored(again)) == [0, 1, 2, 3, 4]


def test_rows_become_lines_of_csv_payloads(project: ConfProject) -> None:
    project.replace("json: {schema: order.json}", "csv: {schema: order.json, separator: ';'}")
    run = opened(project)
    run.add_rows([{"id": 'a "b"; c'}, {"id": "", "at": "2024-01-01T00:00:00Z"}])
    run.put()
    assert [row["kafka_value"] for row in stored(run)] == [b'"a ""b""; c";', b'"";"2024-01-01T00:00:00Z"']


def test_a_text_is_a_row(project: ConfProject) -> None:
    project.replace("json: {schema: order.json}\nevent_time: {column: at, watermark: 10 minutes}", "text: {}")
    run = opened(project)
    run.add_rows([{"value": "a\nb"}])
    run.put()
    assert [row["kafka_value"] for row in stored(run)] == [b"a\nb"]
    assert refusal(run.add_rows, [{"value": None}]).facts == {"row": 0, "reason": "no text"}


def test_rows_cannot_be_encoded_without_a_payload(project: ConfProject) -> None:
    project.replace(
        "payload:\n  json: {schema: order.json}\nevent_time: {column: at, watermark: 10 minutes}", ""
    )
    run = opened(project)
    error = refusal(run.add_rows, [{"id": "a"}])
    assert (error.error_id, error.facts["given"]) == ("TIDE-TEST-004", "rows of this payload")
    run.add_payloads([b"\x00"])
    run.put()
    assert [row["kafka_value"] for row in stored(run)] == [b"\x00"]


FILES = """description: Orders from files.
owner: tests
source:
  files: {path: "landing/*/orders", format: json, schema: "id string, at timestamp"}
sinks:
  - delta: {table: bronze/landed}
"""


def test_lines_of_a_batch_are_one_file_in_a_folder_of_the_test(project: ConfProject) -> None:
    project.write("conf/pipelines/landed.yaml", FILES)
    run = opened(project, "landed")
    run.add_rows([{"id": "a", "at": Decimal("1.5")}])
    run.add_payloads([b"broken"])
    run.put()
    folder = Path(run.resolved.layout.root, "input/landed/source")
    (file,) = folder.iterdir()
    assert file.read_bytes() == b'{"id": "a", "at": "1.5"}\nbroken\n'
    assert refusal(run.add_rows, [{"idd": "a"}]).fix == "did you mean id?"
    assert refusal(run.add_payloads, [None]).error_id == "TIDE-TEST-004"
    # Spark reads no name twice, so a second run in one folder must not use it again.
    again = opened(project, "landed")
    again.add_payloads([b"later"])
    again.put()
    assert sorted(file.name for file in folder.iterdir()) == ["0.json", "1.json"]


MADE_UP = """description: Rows of the clock.
owner: tests
source:
  rate: {}
sinks:
  - delta: {table: bronze/clock}
"""


def test_rows_of_the_clock_are_the_tests(project: ConfProject) -> None:
    project.write("conf/pipelines/clock.yaml", MADE_UP)
    run = opened(project, "clock")
    run.add_rows([{"timestamp": "2024-01-01T00:00:00Z", "value": 7}])
    run.put()
    assert stored(run) == [{"timestamp": datetime(2024, 1, 1, tzinfo=UTC), "value": 7}]
    assert refusal(run.add_rows, [{"value": "seven"}]).error_id == "TIDE-TEST-003"
    assert refusal(run.add_payloads, [b"7"]).fix == "hand in rows by add_rows"


READS_TABLE = """description: From a table.
owner: tests
source:
  delta: {table: bronze/orders}
sinks:
  - delta: {table: silver/orders}
"""


def test_a_table_has_the_types_of_its_first_rows(project: ConfProject) -> None:
    project.write("conf/pipelines/copied.yaml", READS_TABLE)
    run = opened(project, "copied")
    error = refusal(run.add_rows, [{"id": 1, "name": None}])
    assert (error.error_id, error.facts) == ("TIDE-TEST-003", {"reason": "only nulls in the column name"})
    run.add_rows([{"id": 1, "at": datetime(2024, 1, 1)}])  # noqa: DTZ001  # taken as UTC
    run.put()
    error = refusal(run.add_rows, [{"id": 1}, {"id": 1.5}])
    assert (error.error_id, error.facts) == ("TIDE-TEST-003", {"row": 1, "reason": "1.5 is no integer"})
    assert refusal(run.add_rows, [{"id": 1, "at": "soon"}]).fix == "write a datetime, or ISO 8601"
    run.add_rows([{"id": 2}])
    run.put()
    assert sorted(stored(run, "bronze/orders"), key=lambda row: row["id"]) == [
        {"id": 1, "at": datetime(2024, 1, 1, tzinfo=UTC)},
        {"id": 2, "at": None},
    ]


@pytest.mark.parametrize("file", ["orders.yaml", "conf/pipelines/orders.yml", "conf/orders.yaml"])
def test_a_file_that_declares_no_pipeline_is_refused(tmp_path: Path, file: str) -> None:
    error = refusal(testing.pipeline, tmp_path / file, tmp_path, None)
    assert (error.error_id, error.facts) == ("TIDE-TEST-005", {"file": tmp_path / file})


def test_a_pipeline_that_does_not_exist_is_refused_with_the_near_one(project: ConfProject) -> None:
    with pytest.raises(SpecError) as missing:
        opened(project, "order")
    assert (missing.value.error_id, missing.value.fix) == ("TIDE-SPEC-011", "did you mean orders?")


class NamesTopics:
    """The part of a broker that is used before a pipeline runs."""

    bootstrap_servers = "localhost:1"

    def new_topic(self, name: str) -> str:
        return f"{name}_0001"


def test_topics_of_a_broker_are_the_tests_own(project: ConfProject) -> None:
    project.replace("    topic: orders", "    topics: [orders, returns]\n    starting_offsets: latest")
    file = project.folder / "conf/pipelines/orders.yaml"
    text = file.read_text()
    text = text.replace(SINKS, f"{SINKS}\n  - kafka: {{topic: large}}")
    file.write_text(text)
    run = testing.pipeline(file, project.folder.parent / "data", None, NamesTopics())  # type: ignore[arg-type]
    source, (_, sink) = run.resolved.spec.source.kafka, run.resolved.spec.sinks
    assert source is not None
    assert (source.topics, source.starting_offsets) == (["orders_0001", "returns_0001"], "earliest")
    assert sink.kafka is not None
    assert sink.kafka.topic == run.topic_of("large") == "large_0001"
    error = refusal(run.topic_of, "lagre")
    assert (error.error_id, error.fix) == ("TIDE-TEST-001", "did you mean large?")


def test_topics_that_are_not_named_need_a_stand_in(project: ConfProject) -> None:
    project.replace("    topic: orders", "    pattern: orders.*")
    file = project.folder / "conf/pipelines/orders.yaml"
    error = refusal(testing.pipeline, file, project.folder.parent / "data", None, NamesTopics())
    assert (error.error_id, error.facts["pattern"]) == ("TIDE-TEST-004", "orders.*")
    run = opened(project)
    run.add_rows([{"id": "a"}])
    run.put()
    assert {row["kafka_topic"] for row in stored(run)} == {"orders.*"}
