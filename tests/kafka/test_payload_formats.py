"""Text, CSV, Avro and Protobuf records through the same door as JSON: in every mode, good ones are rows."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastavro import parse_schema, schemaless_writer
from pyspark.sql import SparkSession

from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tests.support.protobuf_schemas import PROTOC_MADE, made_by
from tests.support.schema_registry import schema_registry
from tidemill.engine.classify import classify

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FUTURE = datetime(9999, 1, 1, tzinfo=UTC)

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "sizes", "type": {"type": "map", "values": "double"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "place",
            "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "float"}]},
        },
    ],
}


def avro(number: int, at: datetime = NOON, x: float = 0.5) -> bytes:
    stream = io.BytesIO(b"\x00\x00\x00\x00\x07")
    stream.seek(5)
    order = {
        "price": Decimal("1.50"),
        "day": NOON.date(),
        "sizes": {"a": 1.5},
        "tags": ["b"],
        "place": {"x": x},
    }
    schemaless_writer(stream, parse_schema(AVRO), {"id": number, "at": at, **order})
    return stream.getvalue()


# A newer version of the producer: another namespace, and fields that no column could hold.
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
NEWER: dict[str, Any] = {
    **AVRO,
    "namespace": "shop.v2",
    "fields": [{"name": "note", "type": ["null", "string", "long", NODE]}, *AVRO["fields"]],
}


def newer_avro(number: int) -> bytes:
    """Return a record of a newer schema; its other columns are those of `avro`."""
    return b"\x00\x00\x00\x00\x09" + b"\x06\x02\x00" + avro(number)[5:]


PROTOBUF = (PROTOC_MADE / "types.desc").read_bytes()
ORDER = made_by(PROTOBUF)
NO_PLACE = {"x": 1.0, "floor": 7, "side": None, "back": "RIGHT", "label": "é", "room": None, "lit": True}


def protobuf(number: int, at: datetime = NOON, **fields: Any) -> bytes:
    """Return a record with its header: the schema's number, and the second message of the file."""
    order = ORDER(id=number, u64=2**64 - 1, kind="OLD", tags=["b"], cash=0, sizes={"a": 1.5}, **fields)
    order.route.add(x=1)
    order.at.FromDatetime(at)
    order.took.FromNanoseconds(-1)
    order.count.value = number
    return b"\x00\x00\x00\x00\x07\x02\x02" + bytes(order.SerializeToString())


@dataclass(frozen=True)
class Format:
    """A payload declaration, sent records, and their expected results."""

    payload: dict[str, Any]
    good: list[bytes]
    rows: list[dict[str, Any]]
    broken: dict[str, bytes | None]
    event_time: str | None = None


# Their decoders' own tests are in tests/unit/payload; here is one of the two whose records name their schema.
IN_SOAK = ("text", "csv", "protobuf")

FORMATS = {
    "text": Format(
        {"text": {"max_record_bytes": 10}},
        [b"one", "zwölf".encode()],
        [{"value": "one"}, {"value": "zwölf"}],
        {"null_value": None, "oversized": b"12345678901", "invalid_utf8": b"\xff"},
    ),
    "csv": Format(
        {"csv": {"schema": "order.json", "separator": ";", "keep_raw": True}},
        [b"1;2026-01-01T12:00:00Z;1.5", b'"2";;'],
        [{"id": 1, "at": NOON, "price": 1.5}, {"id": 2, "at": None, "price": None}],
        {
            "wrong_field_count": b"3;;;",
            "wrong_type:id": b"x;;",
            "not_finite:price": b"4;;NaN",
            "malformed_csv": b'5;"',
            "missing_required:id": b";;",
            "ahead_of_arrival:at": b"6;9999-01-01T00:00:00Z;1",
        },
        event_time="at",
    ),
    "avro": Format(
        {"avro": {"schema": "order.avsc", "framing": "confluent", "ids": {7: "order.avsc", 9: "newer.avsc"}}},
        [avro(1), newer_avro(2)],
        [
            {
                "id": number,
                "at": NOON,
                "price": Decimal("1.50"),
                "day": NOON.date(),
                "sizes": [("a", 1.5)],
                "tags": ["b"],
                "place": {"x": 0.5},
            }
            for number in (1, 2)
        ],
        {
            "unknown_schema_id:8": b"\x00\x00\x00\x00\x08" + avro(3)[5:],
            "no_schema_id": b"\x01",
            "malformed_avro": avro(3)[:-1],
            "trailing_bytes": avro(3) + b"\x00",
            "not_finite:place.x": avro(3, x=float("nan")),
            "ahead_of_arrival:at": avro(3, at=FUTURE),
        },
        event_time="at",
    ),
    "protobuf": Format(
        {
            "protobuf": {
                "schema": "order.desc",
                "message": "shop.Order",
                "framing": "confluent",
                "ids": {7: "order.desc"},
            }
        },
        [protobuf(1), protobuf(2)],
        [
            {
                **dict.fromkeys(("i32", "u32", "s32", "s64", "f32", "f64", "sf32", "sf64", "cash"), 0),
                **dict.fromkeys(("maybe", "maybe_kind", "place", "card", "at_counter", "note"), None),
                **dict.fromkeys(("large", "sure"), None),
                **{name: [] for name in ("counts", "kinds", "places", "flags", "visits", "dates")},
                "real": 0.0,
                "wide": 0.0,
                "open": False,
                "name": "",
                "raw": b"",
                "kind": "OLD",
                "id": number,
                "u64": Decimal(2**64 - 1),
                "route": [{**NO_PLACE, "doors": [], "steps": []}],
                "tags": ["b"],
                "sizes": [("a", 1.5)],
                "at": NOON,
                "took": Decimal("-0.000000001"),
                "count": number,
            }
            for number in (1, 2)
        ],
        {
            "unknown_schema_id:8": b"\x00\x00\x00\x00\x08" + protobuf(3)[5:],
            "no_schema_id": b"\x01",
            "other_message": b"\x00\x00\x00\x00\x07\x00" + protobuf(3)[7:],
            "malformed_protobuf": protobuf(3)[:-1],
            "wrong_wire_type:id": protobuf(3) + b"\x0a\x01a",
            "unknown_enum_number:kind": protobuf(3) + b"\x80\x01\x63",
            "invalid_utf8:tags[]": protobuf(3) + b"\xb2\x01\x01\xff",
            "not_finite:real": protobuf(3, real=float("nan")),
            "ahead_of_arrival:at": protobuf(3, at=FUTURE),
        },
        event_time="at",
    ),
}

TRANSFORM = """
def transform(orders):
    return orders.where("kafka_offset >= 0")
"""


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> Lake:
    lake = Lake(tmp_path / "lake", spark, kafka.bootstrap_servers)
    numbers = {"id": {"type": "integer"}, "price": {"type": "number"}}
    fields = {**numbers, "at": {"type": "string", "format": "date-time"}}
    lake.schema("order.json", {name: fields[name] for name in ("id", "at", "price")}, ["id"])
    (lake.folder / "conf/schemas/order.avsc").write_text(json.dumps(AVRO))
    (lake.folder / "conf/schemas/newer.avsc").write_text(json.dumps(NEWER))
    (lake.folder / "conf/schemas/order.desc").write_bytes(PROTOBUF)
    return lake


def orders(lake: Lake, name: str, topic: str, told: Format, **sink: Any) -> LakePipeline:
    event_time = {"column": told.event_time, "watermark": "1 hour"} if told.event_time else None
    return lake.pipeline(
        name,
        source={"kafka": {"topic": topic}},
        payload=told.payload,
        **({"event_time": event_time} if event_time else {}),
        **({"transform": lake.transform("orders", TRANSFORM)} if sink else {}),
        sinks=[{"delta": {"table": f"bronze/{name}", **sink}}],
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak if name in IN_SOAK else ()) for name in FORMATS]
)
def test_good_records_become_rows_and_broken_ones_go_to_the_quarantine_in_every_mode(
    kafka: Kafka, lake: Lake, name: str
) -> None:
    told = FORMATS[name]
    topic = kafka.topic_with([told.good[0], *told.broken.values(), *told.good[1:]])
    whole = orders(lake, "while_writing", topic, told)
    # Through a transform, by the other writer, and as a backfill.
    again = orders(lake, "backfilled", topic, told, writer="spark")

    whole.run_incremental()
    again.backfill("2020-01-01", "2030-01-01")

    tables = [lake.rows(f"bronze/{pipeline.name}") for pipeline in (whole, again)]
    payload = [
        {column: value for column, value in row.items() if not column.startswith("kafka_")}
        for row in tables[0]
    ]
    assert payload == told.rows
    assert tables[0] == tables[1]
    if "keep_raw" in next(iter(told.payload.values())):
        assert [row["kafka_value"] for row in tables[0]] == told.good
    for pipeline in (whole, again):
        rejected = sorted(lake.quarantined(pipeline.name), key=lambda row: row["offset"])
        assert [(row["offset"], row["reason"]) for row in rejected] == list(enumerate(told.broken, start=1))
        assert [row["value"] for row in rejected] == list(told.broken.values())
    # Spark reads what the arrow writer has written, types included.
    assert lake.spark.read.format("delta").load(str(lake.root / "tables/bronze/while_writing")).count() == 2


def registered(lake: Lake, topic: str, url: str, name: str) -> LakePipeline:
    """Declare a pipeline whose writer schemas are in a registry."""
    file = lake.folder / "conf/environments/local.yaml"
    document = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**document, "schema_registry": {"url": url}}))
    framing = {"framing": "confluent", "writers": "registry"}
    declared = {"schema": "order.desc", "message": "shop.Order", **framing}
    return orders(lake, name, topic, Format({"protobuf": declared}, [], [], {}))


def test_writers_schemas_of_a_registry_are_kept_and_its_absence_repeats_the_batch(
    kafka: Kafka, lake: Lake
) -> None:
    unknown = b"\x00\x00\x00\x00\x08" + protobuf(3)[5:]
    topic = kafka.topic_with([protobuf(1), unknown, protobuf(2)])
    with schema_registry() as registry:
        registry.register_types()
        pipeline = registered(lake, topic, registry.url, "registered")
        registry.answer = (503, b"")
        with pytest.raises(Exception) as failed:  # noqa: PT011  # what the driver makes of it is asserted
            pipeline.run_incremental()
        error = classify(failed.value)
        assert (error.error_id, error.exit_code) == ("TIDE-SRC-020", 69)
        assert (lake.rows("bronze/registered"), lake.quarantined("registered")) == ([], [])
        registry.answer = None
        pipeline.run_incremental()
        # The decisions of the batch that failed before, which a repetition of it would find.
        kept = sorted(Path(lake.root / "state/registered/schemas").glob("*/decided/*/*"))
        known = {
            str(file.relative_to(file.parents[1])): json.loads(file.read_text())["known"] for file in kept
        }
        batch = f"{pipeline.query_id}-0"
        assert known == {f"{batch}/7": True, f"{batch}/8": False}
    assert [row["id"] for row in lake.rows("bronze/registered")] == [1, 2]
    kafka.send(topic, [Record(protobuf(4))])
    # The registry is gone from here on.
    pipeline.run_incremental()
    bounds = (json.dumps({topic: {"0": offset}}) for offset in (2, 4))
    pipeline.backfill(**dict(zip(("start_offsets", "end_offsets"), bounds, strict=True)))
    # Without the registry, it is unknown whether that schema id is registered.
    with pytest.raises(Exception) as failed:  # noqa: PT011
        pipeline.backfill("2020-01-01", "2030-01-01")
    assert classify(failed.value).error_id == "TIDE-SRC-020"
    assert sorted(row["id"] for row in lake.rows("bronze/registered")) == [1, 2, 4]
    reasons = {(row["offset"], row["reason"]) for row in lake.quarantined("registered")}
    assert reasons == {(1, "unknown_schema_id:8")}


def test_a_pipeline_of_avro_that_shall_stop_says_where_the_record_lies(kafka: Kafka, lake: Lake) -> None:
    told = FORMATS["avro"]
    strict = {"avro": {**told.payload["avro"], "on_invalid": "fail"}}
    topic = kafka.topic_with([])
    kafka.send(topic, [Record(told.good[0]), Record(b"secret")])
    with pytest.raises(Exception) as failed:  # noqa: PT011  # what the driver makes of it is asserted
        orders(lake, "strict", topic, Format(strict, [], [], {})).run_incremental()
    error = classify(failed.value)
    assert (error.error_id, error.facts["offset"], error.facts["reason"]) == (
        "TIDE-DATA-001",
        "1",
        "no_schema_id",
    )
    assert "secret" not in str(error)
    assert lake.rows("bronze/strict") == []


def test_a_topic_of_upserts_and_tombstones_becomes_a_table_of_what_is_there(kafka: Kafka, lake: Lake) -> None:
    topic = kafka.new_topic()
    values = [(b"a", b'{"id": 1}'), (b"b", b'{"id": 2}'), (b"a", None), (b"b", b'{"id": 3}')]
    kafka.send(topic, [Record(value, key=key) for key, value in values])
    keyed = "SELECT decode(kafka_key, 'UTF-8') AS name, id, kafka_offset FROM result"
    (lake.folder / "spark_apps/transforms/keyed.sql").write_text(keyed)
    cdc = {
        "sequence_by": "kafka_offset",
        "apply_as_deletes": "id IS NULL",
        "except_columns": ["kafka_offset"],
    }
    sink = {"table": "silver/names", "mode": "scd1", "key": ["name"], "transform": "keyed.sql", "cdc": cdc}
    lake.pipeline(
        "names",
        source={"kafka": {"topic": topic}},
        payload={"json": {"schema": "order.json", "tombstones": "keep"}},
        sinks=[{"delta": sink}],
    ).run_incremental()
    rows = sorted(lake.rows("silver/names"), key=lambda row: row["name"])
    assert [(row["name"], row["id"], row["_sequence"]) for row in rows] == [("a", None, 2), ("b", 3, 3)]
    assert [row["_deleted_at"] is None for row in rows] == [False, True]
    assert lake.quarantined("names") == []
