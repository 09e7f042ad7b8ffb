"""Wrong conf: the error says file, line, key, near key and fix, and shows no value."""

from __future__ import annotations

import pytest

from tests.support.conf_project import PIPELINE, ConfProject


def test_the_project_of_these_tests_is_valid(project: ConfProject) -> None:
    assert project.resolve().spec.owner == "tests"


def test_an_unknown_key_names_file_line_key_and_near_key(project: ConfProject) -> None:
    project.replace("event_time:", "event_tiem:")
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-003"
    assert error.facts == {
        "file": project.folder / "conf/pipelines/orders.yaml",
        "key": "event_tiem",
        "near_key": "event_time",
    }
    assert error.fix == "write `event_time` instead of `event_tiem`"
    assert "orders.yaml:9  event_tiem: unknown key; did you mean `event_time`?" in error.problem


@pytest.mark.parametrize(
    ("old", "new", "key", "near"),
    [
        ("kafka:\n    topic", "kafak:\n    topic", "source.kafak", "kafka"),
        ("topic: orders", "topik: orders", "source.kafka.topik", "topic"),
        ("{schema:", "{shema:", "payload.json.shema", "schema"),
        ("watermark:", "watermrk:", "event_time.watermrk", "watermark"),
        ("{table:", "{tabel:", "sinks[0].delta.tabel", "table"),
        ("- delta:", "- detla:", "sinks[0].detla", "delta"),
        ("trigger:", "triger:", "run.triger", "trigger"),
    ],
)
def test_a_near_key_is_found_at_every_depth(
    project: ConfProject, old: str, new: str, key: str, near: str
) -> None:
    project.replace(old, new)
    error = project.refusal()
    assert error.facts["key"] == key
    assert error.facts["near_key"] == near


def test_every_problem_of_a_file_is_told_at_once(project: ConfProject) -> None:
    project.write(
        "conf/pipelines/orders.yaml",
        PIPELINE.replace("owner: tests\n", "")
        .replace("description: Orders as they came.\n", "")
        .replace("10 minutes", "10")
        .replace("5 seconds", "soon"),
    )
    problem = project.refusal().problem
    assert "orders.yaml:1  owner: missing" in problem
    assert "orders.yaml:1  description: missing" in problem
    assert "orders.yaml:7  event_time.watermark: expected a duration" in problem
    assert "orders.yaml:11  run.trigger: expected a duration" in problem


@pytest.mark.parametrize(
    ("old", "new", "key", "says"),
    [
        ("owner: tests", "owner: 5", "owner", "in quotes"),
        ("owner: tests", "owner: true", "owner", "in quotes"),
        ("owner: tests", "owner: [a]", "owner", "expected text"),
        ("owner: tests", "owner:", "owner", "expected text"),
        ("owner: tests", 'owner: "a\\nb"', "owner", "one line"),
        ("owner: tests", 'owner: "  "', "owner", "one line"),
        ("topic: orders", "topic: [a]", "source.kafka.topic", "expected text"),
        ("topic: orders", "topics: orders", "source.kafka.topics", "expected a list"),
        ("topic: orders", "topics: []", "source.kafka.topics", "at least 1"),
        ("topic: orders", "{}", "source.kafka", "exactly one of topic, topics, pattern, assign"),
        ("topic: orders", "topic: a\n    pattern: b", "source.kafka", "found topic and pattern"),
        ("topic: orders", "pattern: '['", "source.kafka.pattern", "not a regular expression"),
        ("topic: orders", "pattern: orders*", "source.kafka.pattern", "did you mean orders.*?"),
        ("topic: orders", "topic: orders\n    headers: perhaps", "source.kafka.headers", "boolean"),
        (
            "topic: orders",
            "topic: orders\n    max_offsets_per_batch: 0",
            "source.kafka.max_offsets_per_batch",
            "0",
        ),
        (
            "topic: orders",
            "topic: orders\n    max_offsets_per_batch: true",
            "source.kafka.max_offsets_per_batch",
            "",
        ),
        (
            "topic: orders",
            "topic: orders\n    max_offsets_per_batch: 1.5",
            "source.kafka.max_offsets_per_batch",
            "",
        ),
        (
            "topic: orders",
            "topic: orders\n    starting_offsets: now",
            "source.kafka.starting_offsets",
            "earliest",
        ),
        (
            "topic: orders",
            "topic: orders\n    starting_offsets: {a: {0: 1}}",
            "source.kafka",
            "exactly the topics",
        ),
        (
            "topic: orders",
            "topic: orders\n    starting_offsets: {orders: {0: -3}}",
            "source.kafka.starting_offsets",
            "",
        ),
        (
            "topic: orders",
            "topic: orders\n    starting_offsets: {orders: {x: 1}}",
            "source.kafka.starting_offsets",
            "",
        ),
        ("json: {schema: order.json}", "json", "payload", "expected keys and values"),
        ("  - delta: {table: bronze/orders}", "  delta: {table: bronze/orders}", "sinks", "expected a list"),
        (
            "  - delta: {table: bronze/orders}",
            "  - {}",
            "sinks[0]",
            "exactly one of delta, kafka, files, postgres",
        ),
        ("bronze/orders", "orders", "sinks[0].delta.table", "a table is <zone>/<name>"),
        ("bronze/orders", "bronze/../orders", "sinks[0].delta.table", "a table is <zone>/<name>"),
        (
            "bronze/orders}",
            "bronze/orders, mode: upsert}",
            "sinks[0].delta.mode",
            "'append', 'merge', 'replace', 'scd1' or 'scd2'",
        ),
        ("bronze/orders}", "bronze/orders, mode: merge}", "sinks[0].delta", "merge need it"),
        ("bronze/orders}", "bronze/orders, key: [id]}", "sinks[0].delta", "other modes refuse it"),
        ("bronze/orders}", "bronze/orders, cluster_by: [id, ID]}", "sinks[0].delta", "stands twice"),
        (
            "bronze/orders}",
            "bronze/orders, cluster_by: [id], writer: arrow}",
            "sinks[0].delta",
            "arrow writer",
        ),
        (
            "bronze/orders}",
            "bronze/orders, cluster_by: [a], partition_by: [b]}",
            "sinks[0].delta",
            "not both",
        ),
        ("bronze/orders}", "bronze/orders}\n  - kafka: {topic: orders}", "(file)", "read what it writes"),
        ("10 minutes}", "10 minutes, window: 0 s}", "event_time.window", "longer than nothing"),
        ("trigger: 5 seconds", "schedule: '@daily'", "run", "mode incremental"),
        ("trigger: 5 seconds", "shuffle_partitions: 5000", "run.shuffle_partitions", "4096"),
        ("trigger: 5 seconds", "size: Große", "run.size", "pattern"),
    ],
)
def test_a_wrong_value_is_refused_at_its_key(
    project: ConfProject, old: str, new: str, key: str, says: str
) -> None:
    project.replace(old, new)
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-003"
    assert error.facts["key"] == key
    assert says in error.problem


def test_partition_numbers_may_be_written_as_numbers(project: ConfProject) -> None:
    project.replace("topic: orders", "topic: orders\n    starting_offsets: {orders: {0: 5, 1: -2}}")
    assert project.resolve().spec.source.chosen.starting_offsets == {"orders": {"0": 5, "1": -2}}


@pytest.mark.parametrize(
    ("content", "found"),
    [("", "nothing"), ("# only a comment\n", "nothing"), ("- a\n", "a list"), ("a\n", "a single value")],
)
def test_a_file_without_keys_says_what_it_holds(project: ConfProject, content: str, found: str) -> None:
    project.write("conf/pipelines/orders.yaml", content)
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-003"
    assert error.facts["found"] == found


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("root: .data\nruntime: cloud", "runtime"),
        ("root: ''", "root"),
        ("root: ~/data", "root"),
        ("root: ftp://host/x", "root"),
        ("root: s3://bucket/../other", "root"),
        ("root: .data\nkafka: {bootstrap_servers: localhost}", "kafka.bootstrap_servers"),
        ("root: .data\nkafka: {bootstrap_servers: 'http://localhost:1'}", "kafka.bootstrap_servers"),
        ("root: .data\nsizes: {small: {driver: {memory: 10}}}", "sizes.small.driver.memory"),
        ("root: .data\nsizes: {small: {driver: {memory: 100m}}}", "sizes.small.driver.memory"),
        ("root: .data\nsizes: {small: {driver: {cores: 0}}}", "sizes.small.driver.cores"),
        ("root: .data\nkafka: {bootstrap_servers: 'a:1', security: {protocol: SASL_SSL}}", "kafka.security"),
        ("root: .data\nkafka: {bootstrap_servers: 'a:1', security: {mechanism: PLAIN}}", "kafka.security"),
        ("root: .data\nkafka: {bootstrap_servers: 'a:1', security: {ca_file: ca.pem}}", "kafka.security"),
    ],
)
def test_a_wrong_environment_is_refused_at_its_key(project: ConfProject, text: str, key: str) -> None:
    project.write("conf/environments/local.yaml", text)
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-003"
    assert error.facts["key"] == key


@pytest.mark.parametrize(
    "old", ["tests", "10 minutes", "bronze/orders", "order.json", "5 seconds", "at,", "orders"]
)
def test_an_error_never_shows_the_value_that_it_refuses(project: ConfProject, old: str) -> None:
    value = "hunter2 hunter2\\x07"
    project.replace(old, f'"{value}"' + ("," if old.endswith(",") else ""))
    error = project.refusal()
    assert "hunter2" not in str(error)
    assert error.__cause__ is None or "hunter2" not in str(error.__cause__)
