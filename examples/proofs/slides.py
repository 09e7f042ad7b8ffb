"""The slides' examples: signals of devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from statistics import mean
from typing import TYPE_CHECKING

from examples.proofs.activity import FILES, stream_1p
from examples.proofs.example import Example, Result
from examples.proofs.times import at, by_window, moment

if TYPE_CHECKING:
    from examples.proofs.stage import Stage

SIGNALS = [{"device": f"d{number % 3}", "signal": 10.0 + number} for number in range(12)]
TYPED = [
    {"device": "d1", "device_type": "pump", "signal": 10.0, "at": at("12:01:00")},
    {"device": "d2", "device_type": "pump", "signal": 20.5, "at": at("12:09:59")},
    {"device": "d3", "device_type": "valve", "signal": 7.0, "at": at("12:04:00")},
    {"device": "d1", "device_type": "pump", "signal": 40.0, "at": at("12:10:00")},
    {"device": "d3", "device_type": "valve", "signal": 9.0, "at": at("13:00:00")},
]


def strong() -> list[tuple[object, ...]]:
    """Signals above 15."""
    return [(row["device"], row["signal"]) for row in SIGNALS if float(str(row["signal"])) > 15]


def signals_as_a_batch(stage: Stage) -> Sequence[Result]:
    """Apply the same transform in the pipeline and as a plain function over the same files."""
    from tidemill.engine.transform import load_code

    stage.land("landing/signals/1.json", SIGNALS)
    stage.run("strong_signals")
    place = "exports/strong_signals"
    transform = load_code(stage.pipeline("strong_signals").resolved, "strong_signals:transform")
    files = stage.spark.read.schema("device string, signal double").json(
        str(stage.lake.root / "landing/signals")
    )
    return [
        Result(place, stage.exported(place, "device", "signal"), strong()),
        Result("the function over a batch", [tuple(row) for row in transform(files).collect()], strong()),
    ]


def signals_as_a_stream(stage: Stage) -> Sequence[Result]:
    """Run until all rows are in the table."""
    stage.land("landing/signals/1.json", SIGNALS)
    place = "exports/strong_signals_live"
    with stage.live("strong_signals_live") as stream:
        stream.wait_until(lambda: stage.ended_batches("strong_signals_live") == 1, "a batch")
        stream.drain()
    return [Result(place, stage.exported(place, "device", "signal"), strong())]


def count_of_signals(stage: Stage) -> Sequence[Result]:
    """One row."""
    stage.land("landing/signals/1.json", SIGNALS)
    stage.run("signal_count")
    return [Result("gold/signal_count", stage.rows("gold/signal_count", "signals"), [(len(SIGNALS),)])]


def query_management(stage: Stage) -> Sequence[Result]:
    """Show a query in a separate driver, and one that failed, whose start a hold forbids."""
    told = stream_1p(stage)
    sources = [source["description"].partition("[")[0] for source in told["query"]["sources"]]
    sinks = [(sink["name"], sink["batch_id"], sink["committed"]) for sink in told["query"]["sinks"]]
    waited = stage.tidemill("queries", "wait", "stream_1p", "--timeout", "1s")
    held, _ = stage.tidemill("checkpoint", "hold", "signal_count", "--reason", "shown")
    refused, _ = stage.tidemill("run", "signal_count", "--mode", "incremental")
    failed = json.loads(stage.tidemill("queries", "show", "signal_count", "--json")[1])
    stage.tidemill("checkpoint", "release", "signal_count", "by-hand", "--reason", "shown", "--apply")
    return [
        Result("sources", sources, ["FileStreamSource"]),
        Result("sinks", sinks, [("files:exports/stream_1p", FILES - 1, True)]),
        Result("active, exception", [(told["active"], told["exception"])], [(True, None)]),
        Result("wait", [waited], [(1, "stream_1p: still runs after 1s\n")]),
        Result("a run that fails", [(held, refused, failed["exception"]["id"])], [(0, 66, "TIDE-CKPT-029")]),
    ]


def signal_by_device_type(stage: Stage) -> Sequence[Result]:
    """Windows that are over; the last event closes the others."""
    stage.land("landing/typed_signals/1.json", TYPED)
    stage.run("signal_by_device_type")
    expected = []
    for start, rows in by_window(TYPED, lambda row: moment(row["at"]), 10, timedelta(minutes=5)).items():
        for kind in {row["device_type"] for row in rows}:
            expected.append((kind, start, mean(row["signal"] for row in rows if row["device_type"] == kind)))
    seen = stage.rows("gold/signal_by_device_type", "device_type", "window_start", "avg_signal")
    return [Result("gold/signal_by_device_type", seen, expected)]


EXAMPLES = [
    Example(
        1,
        "slides",
        "JSON files as a batch: device and signal above 15, into Parquet",
        ("strong_signals",),
        note="since Spark 2.0, the slides' `read.stream` and `startStream` are `readStream` and `start`",
        proof=signals_as_a_batch,
    ),
    Example(
        2,
        "slides",
        "the same code as a stream, in append mode",
        ("strong_signals_live",),
        proof=signals_as_a_stream,
    ),
    Example(
        3,
        "slides",
        "`count(*)` into Parquet in complete mode",
        ("signal_count",),
        refused={"signal_count_parquet": "TIDE-MODE-007"},
        note="Spark 4.2 also refuses it; a table can take the whole result",
        proof=count_of_signals,
    ),
    Example(
        4,
        "slides",
        "stop, wait, exception, status of sources and sinks",
        ("stream_1p",),
        note="`tidemill queries show`, `queries wait`; Spark no longer has `sourceStatuses` and `sinkStatus`",
        proof=query_management,
    ),
    Example(
        5,
        "slides",
        "average signal of each device type over 10 minutes of event time",
        ("signal_by_device_type",),
        note="a watermark decides when a window closes",
        proof=signal_by_device_type,
    ),
]
