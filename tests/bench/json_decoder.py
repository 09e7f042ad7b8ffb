"""Prints what decoding costs: 250,000 records, clean and with broken ones, in Spark-sized batches.

Run: PYTHONPATH=spark_apps python tests/bench/json_decoder.py
"""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from tidemill.payload.decoder import Decoded
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import load_payload_schema

RECORDS = 250_000
BATCH = 50_000
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = {
    "type": "object",
    "required": ["event_id", "device_id", "timestamp"],
    "properties": {
        "event_id": {"type": "string"},
        "device_id": {"type": "string"},
        "timestamp": {"type": "string", "format": "date-time"},
        "temperature": {"type": "number"},
        "humidity": {"type": "number"},
        "battery": {"type": "integer"},
        "online": {"type": "boolean"},
        "firmware": {"type": ["string", "null"]},
        "sequence": {"type": "integer"},
    },
}
BREAKS = {
    "truncated": lambda r: r[:-20],
    "wrong type": lambda r: r.replace(b'"battery":', b'"battery":"x","_":'),
    "1.5 for an integer": lambda r: r.replace(b'"sequence":', b'"sequence":1.5,"_":'),
    "missing field": lambda r: r.replace(b'"device_id"', b'"device"'),
    "no instant": lambda r: r.replace(b'"2026-01', b'"2026-13'),
    "broken inside": lambda r: r.replace(b'"humidity":', b'"humidity":,'),
}


def event(dice: random.Random, number: int) -> bytes:
    return json.dumps(
        {
            "event_id": f"{dice.getrandbits(128):032x}",
            "device_id": f"device-{number % 1000:04d}",
            "timestamp": f"{START + timedelta(milliseconds=number):%Y-%m-%dT%H:%M:%S.%fZ}",
            "temperature": round(dice.uniform(-20, 120), 2),
            "humidity": round(dice.uniform(0, 100), 1),
            "battery": number % 100,
            "online": True,
            "firmware": "1.4.2",
            "sequence": number,
        },
        separators=(",", ":"),
    ).encode()


def batches(records: list[bytes]) -> list[pa.BinaryArray]:
    return [pa.array(records[at : at + BATCH], pa.binary()) for at in range(0, len(records), BATCH)]


def measure(decoder: JsonDecoder, records: list[bytes]) -> tuple[float, int]:
    """Best of three: seconds and rejected records."""
    best, rejected = float("inf"), 0
    arrays = batches(records)
    for _ in range(3):
        started = time.perf_counter()
        results: list[Decoded] = [decoder.decode(array) for array in arrays]
        best = min(best, time.perf_counter() - started)
        rejected = sum(len(result.reasons) for result in results)
    return best, rejected


def main() -> None:
    dice = random.Random(4)
    clean = [event(dice, number) for number in range(RECORDS)]
    decoder = JsonDecoder(load_payload_schema(SCHEMA, "bench.json"), max_record_bytes=2**20)
    mixes = {"clean": (0.0, []), "1 % of all kinds": (0.01, list(BREAKS.values()))}
    mixes |= {f"1 % {name}": (0.01, [change]) for name, change in BREAKS.items()}
    mixes |= {f"100 % {name}": (1.0, [change]) for name, change in BREAKS.items()}
    base = 0.0
    for name, (share, changes) in mixes.items():
        records = [dice.choice(changes)(r) if dice.random() < share else r for r in clean]
        seconds, rejected = measure(decoder, records)
        base = base or seconds
        rate = f"{RECORDS / seconds / 1000:6.0f} k records/s"
        print(f"{name:26s} {seconds:7.3f} s {rate}  x{seconds / base:5.2f}  rejected {rejected}")


if __name__ == "__main__":
    main()
