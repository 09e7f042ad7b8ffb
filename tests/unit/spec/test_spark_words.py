"""Words of Spark and Databricks in a pipeline file: each is refused with what to write here."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject


@pytest.mark.parametrize(
    ("old", "new", "key", "says"),
    [
        ("topic: orders", "subscribe: orders", "source.kafka.subscribe", "write `topic:` or `topics:`"),
        ("topic: orders", "subscribePattern: o.*", "source.kafka.subscribePattern", "write `pattern:`"),
        ("topic: orders", "topic: o\n    minPartitions: 4", "source.kafka.minPartitions", "below `options`"),
        (
            "topic: orders",
            "topic: o\n    kafka.group.id: g",
            "source.kafka.kafka.group.id",
            "below `options`",
        ),
        ("topic: orders", "topic: o\n    failOnDataLoss: false", "source.kafka.failOnDataLoss", "stays true"),
        ("kafka:\n    topic: orders", "cloudFiles: {format: json}", "source.cloudFiles", "write `files:"),
        ("kafka:\n    topic: orders", "format: kafka", "source.format", "by its key"),
        ("{table: bronze/orders}", "{table: bronze/o, checkpointLocation: /x}", "", "the pipeline's name"),
        ("{table: bronze/orders}", "{table: bronze/o, checkpoint_location: /x}", "", "the pipeline's name"),
        ("{table: bronze/orders}", "{table: bronze/o, outputMode: update}", "", "write `mode:`"),
        (
            "{table: bronze/orders}",
            "{table: bronze/o, mergeSchema: true}",
            "",
            "`schema_evolution: add_columns`",
        ),
        ("{table: bronze/orders}", "{table: bronze/o, sequenceBy: at}", "", "write `cdc: {sequence_by: …}`"),
        ("delta: {table: bronze/orders}", "console: {truncate: false}", "", "whole values"),
        ("delta: {table: bronze/orders}", "console: {numRows: 5}", "", "write `rows:`"),
        ("delta: {table: bronze/orders}", "table: bronze/orders", "sinks[0].table", "`- delta: {table:"),
        ("owner: tests", "owner: tests\noutputMode: append", "outputMode", "write `mode:` at the sink"),
        ("owner: tests", "owner: tests\nqueryName: orders", "queryName", "the pipeline's name"),
        ("owner: tests", "owner: tests\nwatermark: 1 hour", "watermark", "write `event_time:"),
        ("trigger: 5 seconds", "processingTime: 5 seconds", "run.processingTime", "write `run: {trigger:"),
        ("trigger: 5 seconds", "once: true", "run.once", "trigger: once"),
        ("trigger: 5 seconds", "availableNow: true", "run.availableNow", "write `run: {mode: incremental}`"),
    ],
)
def test_a_word_of_spark_is_refused_with_what_to_write(
    project: ConfProject, old: str, new: str, key: str, says: str
) -> None:
    project.replace(old, new)
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-003"
    assert str(error.facts["key"]).startswith(key)
    assert "near_key" not in error.facts
    assert "unknown key, a word of Spark; " in error.problem
    assert says in error.fix


@pytest.mark.parametrize(
    ("old", "new", "near"),
    [
        ("topic: orders", "topic: orders\n    startingOffsets: latest", "starting_offsets"),
        ("{table: bronze/orders}", "{table: bronze/orders, partitionBy: [id]}", "partition_by"),
        ("trigger: 5 seconds", "stateStore: rocksdb", "state_store"),
        ("delta: {table: bronze/orders}", "foreachBatch: {function: 'orders:transform'}", "foreach_batch"),
        ("event_time: {", "eventTime: {", "event_time"),
    ],
)
def test_a_key_in_camel_case_is_meant_in_snake_case(
    project: ConfProject, old: str, new: str, near: str
) -> None:
    project.replace(old, new)
    assert project.refusal().facts["near_key"] == near


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("cloudFiles.schemaLocation", "kept with the pipeline's state"),
        ("cloudFiles.schemaEvolutionMode", "write `schema_evolution:`"),
        ("cleanSource", "write `after: archive`"),
        ("maxBytesPerTrigger", "write `max_bytes_per_batch:`"),
        ("header", "below `options`: `options: {header: …}`"),
        ("latestFirst", "write `order:`"),
    ],
)
def test_options_of_files_and_auto_loader_are_known(project: ConfProject, key: str, says: str) -> None:
    project.replace(
        "kafka:\n    topic: orders\npayload:\n  json: {schema: order.json}\n",
        f"files: {{path: landing, format: text, {key}: x}}\n",
    )
    assert says in project.refusal().fix


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("delta: {table: bronze/o, startingTimestamp: x}", "write `starting_at:`"),
        ("kafka: {topic: o, startingTimestamp: x}", "`starting_offsets:`"),
        ("eventhubs: {namespace: n, hub: h, eventhubs.consumerGroup: g}", "no consumer group"),
    ],
)
def test_a_word_of_several_sources_has_the_meaning_of_its_source(
    project: ConfProject, source: str, says: str
) -> None:
    project.replace("kafka:\n    topic: orders", source)
    assert says in project.refusal().fix


def test_offsets_as_json_in_quotes_are_written_without_quotes(project: ConfProject) -> None:
    project.replace("topic: orders", 'topic: orders\n    starting_offsets: \'{"orders": {"0": 5}}\'')
    assert "JSON in quotes, as Spark takes it: remove the quotes" in project.refusal().problem
    project.replace("topic: orders", 'topic: orders\n    starting_offsets: {"orders": {"0": 5}}')
    kafka = project.resolve().spec.source.kafka
    assert kafka is not None
    assert kafka.starting_offsets == {"orders": {"0": 5}}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("orders", "of the zones bronze, silver, gold; did you mean bronze/orders?"),
        ("silver.orders", "did you mean silver/orders?"),
        ("main.gold.Orders", "did you mean gold/orders?"),
        ("iron/orders", "did you mean bronze/orders?"),
        ("bronze/1", "of the zones bronze, silver, gold"),
    ],
)
def test_a_table_without_a_zone_is_refused_with_the_nearest_name(
    project: ConfProject, table: str, says: str
) -> None:
    project.replace("bronze/orders", table)
    error = project.refusal()
    assert error.facts["key"] == "sinks[0].delta.table"
    assert says in error.problem
    project.replace("kafka:\n    topic: orders", f"delta: {{table: {table}}}")
    assert says in project.refusal().problem
