"""A topic of Debezium's: snapshots, updates that leave large values out, deletes, and a truncation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tidemill.errors import DataError

ROW = {
    "type": ["object", "null"],
    "properties": {
        "id": {"type": ["integer", "null"]},
        "name": {"type": ["string", "null"]},
        "body": {"type": ["string", "null"]},
    },
}
ENVELOPE = {
    "op": {"type": "string"},
    "before": ROW,
    "after": ROW,
    "source": {"type": "object", "properties": {"lsn": {"type": "integer"}}},
}
PLACE = "kafka_topic, kafka_partition, kafka_offset"
FLAT = """
SELECT it.*, op, source.lsn AS lsn{place}
FROM (SELECT *, coalesce(after, before) AS it FROM source) AS changes
"""
UNAVAILABLE = "__debezium_unavailable_value"
FEED = {
    "sequence_by": "lsn",
    "apply_as_deletes": "op = 'd'",
    "truncate": "op = 't'",
    "unchanged": f"body = '{UNAVAILABLE}'",
}


@pytest.fixture
def lake(lake: Lake, kafka: Kafka) -> Lake:
    return Lake(lake.folder, lake.spark, kafka.bootstrap_servers)


def change(op: str, lsn: int, after: dict[str, Any] | None, before: dict[str, Any] | None = None) -> Record:
    return Record(json.dumps({"op": op, "before": before, "after": after, "source": {"lsn": lsn}}).encode())


CHANGES = [
    change("r", 1, {"id": 1, "name": "a", "body": "large"}),
    change("r", 1, {"id": 2, "name": "b", "body": "gone"}),
    change("u", 2, {"id": 1, "name": "A", "body": UNAVAILABLE}, {"id": 1}),
    change("d", 3, None, {"id": 2, "name": "b"}),
    change("t", 4, None),
    change("c", 5, {"id": 3, "name": "c", "body": "first"}),
    change("u", 6, {"id": 3, "name": "C", "body": UNAVAILABLE}),
    change("u", 7, {"id": None, "name": "nobody", "body": None}),
]


def pipeline_of(kafka: Kafka, lake: Lake, place: str, **feed: str | None) -> LakePipeline:
    topic = kafka.new_topic()
    kafka.send(topic, CHANGES)
    columns = place.split(", ") if place else []
    cdc = {name: value for name, value in {**FEED, **feed}.items() if value is not None}
    cdc["except_columns"] = ["op", "lsn", *columns]
    (lake.folder / "spark_apps/transforms/flat.sql").write_text(
        FLAT.format(place=f", {place}" if place else "")
    )
    sinks = [
        {"delta": {"table": f"silver/{mode}", "mode": mode, "key": ["id"], "cdc": cdc}}
        for mode in ("scd1", "scd2")
    ]
    return lake.pipeline(
        "articles",
        source={"kafka": {"topic": topic, "max_offsets_per_batch": 3}},
        payload={"json": {"schema": lake.schema("envelope.json", ENVELOPE, ["op"])}},
        transform="flat.sql",
        sinks=sinks,
    )


def test_a_table_of_debezium_s_changes_is_what_the_database_has(kafka: Kafka, lake: Lake) -> None:
    pipeline_of(kafka, lake, PLACE).run_incremental()
    rows = [row for row in lake.rows("silver/scd1") if row["_deleted_at"] is None]
    assert [(row["id"], row["name"], row["body"]) for row in rows] == [(3, "C", "first")]
    history = {
        (row["id"], row["name"], row["body"], row["valid_from"], row["valid_to"])
        for row in lake.rows("silver/scd2")
        if row["valid_from"] != row["valid_to"]
    }
    assert history == {
        (1, "a", "large", 1, 2),
        (1, "A", "large", 2, 4),
        (2, "b", "gone", 1, 3),
        (3, "c", "first", 5, 6),
        (3, "C", "first", 6, None),
    }
    # Each of the two tables was given it.
    assert [(row["reason"], row["offset"]) for row in lake.quarantined("articles")] == 2 * [
        ("null_key:id", 7)
    ]


@pytest.mark.parametrize("truncate", ["op = 't'", None])
def test_a_change_without_a_key_of_which_the_place_is_unknown_stops_the_pipeline(
    kafka: Kafka, lake: Lake, truncate: str | None
) -> None:
    pipeline = pipeline_of(kafka, lake, "", truncate=truncate)
    with pytest.raises(DataError) as refused:
        pipeline.run_incremental()
    assert refused.value.error_id == "TIDE-SINK-022"
    assert refused.value.facts["rows_without"] == {"id": 1}
    assert "kafka_offset" in refused.value.fix
    live = [row["id"] for row in lake.rows("silver/scd1") if row["_deleted_at"] is None]
    assert None not in live
