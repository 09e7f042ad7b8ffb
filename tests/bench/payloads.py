"""`make bench-payloads`: time ratio of each payload decoder to Spark's own function.

Both decode the same 200,000 cached records in the same session, alternately. Below 1, Tidemill is faster.
Spark's functions check less: they neither explain nor keep broken records, and they accept NaN and extra
fields. `python -m tests.bench.payloads avro` runs one decoder.
"""

from __future__ import annotations

import copy
import functools
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastavro import parse_schema, schemaless_writer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.pandas.types import from_arrow_schema

from tests.bench.json_decoder import SCHEMA
from tests.support.protobuf_schemas import descriptor_set, made_by, message
from tidemill.payload.decoder import Decoder
from tidemill.payload.decoders import decoder_of
from tidemill.spec.payload import Payload
from tidemill.testing.session import driver_session

RECORDS = 200_000
ROUNDS = 5
KINDS = {"string": "string", "number": "double", "integer": "long", "boolean": "boolean"}
DDL = (
    "event_id string, device_id string, timestamp timestamp, temperature double, humidity double, "
    "battery long, online boolean, firmware string, sequence long"
)


def avro_kind(declared: dict[str, Any]) -> Any:
    if "format" in declared:
        return {"type": "long", "logicalType": "timestamp-millis"}
    kind = declared["type"]
    return ["null", "string"] if isinstance(kind, list) else KINDS[kind]


AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": name, "type": avro_kind(kind)} for name, kind in SCHEMA["properties"].items()],
}
PARSED = parse_schema(AVRO)
# The same columns, with what a validator checks.
CHECKED = copy.deepcopy(SCHEMA)
CHECKED["properties"]["device_id"]["pattern"] = "^device-[0-9]{4}$"
CHECKED["properties"]["temperature"] |= {"minimum": -40, "maximum": 125}
CHECKED["properties"]["firmware"] |= {"minLength": 1}


def event(number: int) -> dict[str, Any]:
    return {
        "event_id": f"{number * 7919:032x}",
        "device_id": f"device-{number % 1000:04d}",
        "timestamp": "2026-01-01T00:00:00.123Z",
        "temperature": number % 1200 / 10,
        "humidity": number % 1000 / 10,
        "battery": number % 100,
        "online": True,
        "firmware": "1.4.2",
        "sequence": number,
    }


def as_json(number: int) -> bytes:
    return json.dumps(event(number)).encode()


def as_csv(number: int) -> bytes:
    return ",".join("true" if value is True else str(value) for value in event(number).values()).encode()


def as_avro(number: int) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, PARSED, {**event(number), "timestamp": 1_767_225_600_123})
    return stream.getvalue()


PROTOBUF = descriptor_set(
    message(
        "Event",
        "string event_id = 1",
        "string device_id = 2",
        "int64 timestamp = 3",
        "double temperature = 4",
        "double humidity = 5",
        "int64 battery = 6",
        "bool online = 7",
        "optional string firmware = 8",
        "int64 sequence = 9",
    )
)


@functools.cache
def protobuf_class() -> Any:
    return made_by(PROTOBUF, "shop.Event")


def as_protobuf(number: int) -> bytes:
    values = {**event(number), "timestamp": 1_767_225_600_123}
    return bytes(protobuf_class()(**values).SerializeToString())


def decoded(records: DataFrame, decoder: Decoder) -> DataFrame:
    def decode(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            yield decoder.decode(batch.column("value")).rows

    return records.mapInArrow(decode, from_arrow_schema(decoder.columns))


def seconds(frame: DataFrame) -> float:
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def main(*wanted: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "event.json").write_text(json.dumps(SCHEMA))
        (folder / "checked.json").write_text(json.dumps(CHECKED))
        (folder / "event.desc").write_bytes(PROTOBUF)
        (folder / "event.avsc").write_text(json.dumps(AVRO))
        spark = driver_session(folder)
        text = F.col("value").cast("string")
        jobs: dict[str, tuple[dict[str, Any], Callable[[int], bytes], Any]] = {
            "json": ({"schema": "event.json"}, as_json, F.from_json(text, DDL)),
            "json, conditions": ({"schema": "checked.json"}, as_json, F.from_json(text, DDL)),
            "csv": ({"schema": "event.json"}, as_csv, F.from_csv(text, DDL)),
            "avro": ({"schema": "event.avsc"}, as_avro, from_avro("value", json.dumps(AVRO))),
            # Spark's from_protobuf needs a jar that is not installed, so there is nothing to compare with.
            "protobuf": ({"schema": "event.desc", "message": "shop.Event"}, as_protobuf, None),
            "text": ({}, as_csv, F.struct(text.alias("value"))),
        }
        for kind, (declared, encode, by_spark) in jobs.items():
            if wanted and kind not in wanted:
                continue
            rows = [(encode(number),) for number in range(RECORDS)]
            records = spark.createDataFrame(rows, "value binary").repartition(2).cache()
            payload = Payload.model_validate({kind.partition(",")[0]: declared})
            ours = decoded(records, decoder_of(payload, folder))
            theirs = None if by_spark is None else records.select(by_spark.alias("row")).select("row.*")
            pairs = [(seconds(ours), None if theirs is None else seconds(theirs)) for _ in range(ROUNDS)][1:]
            rate = RECORDS / statistics.median(mine for mine, _ in pairs) / 1000
            ratios = [mine / other for mine, other in pairs if other]
            compared = f"{statistics.median(ratios):5.2f} x Spark's own" if ratios else "nothing to compare"
            print(f"{kind:16s} {compared:>20s}, {rate:5.0f} k records/s")
            records.unpersist()
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
