"""A watch on the brokers' retention of a pipeline's records, for the time to data loss.

It runs in a separate thread, so silent brokers delay no batch. Without an answer nothing is reported.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from tidemill.checkpoint.retention.clock import shortest_of_brokers
from tidemill.engine.reporter import Reporter
from tidemill.sources.topic_retention import TopicRetention
from tidemill.spec.project import Pipeline

# Interval between requests, in seconds. An operator may shorten a topic's retention at any time. With the
# shortest usual retention, an hour, unread records are deleted within the hour.
ASK_SECONDS = 900.0

log = structlog.get_logger()


@contextmanager
def retention_watched(pipeline: Pipeline, reporter: Reporter) -> Iterator[None]:
    """Update the retention in the driver's status during a `with` block."""
    ended = threading.Event()
    if any(stream.spec.source.is_kafka for stream in pipeline.streams.values()):
        watch = threading.Thread(
            target=_watch, args=(pipeline, reporter, ended), name="retention", daemon=True
        )
        watch.start()
    try:
        yield
    finally:
        ended.set()


def _watch(pipeline: Pipeline, reporter: Reporter, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            # A new instance each time, because an instance does not retry a broker that did not answer.
            found = shortest_of_brokers(pipeline, TopicRetention())
            # After the end, the status may belong to another driver.
            if found is not None and not ended.is_set():
                reporter.source_keeps(found.keeps)
        except Exception as error:  # noqa: BLE001  # telemetry must never stop a driver
            log.warning("retention_unknown", pipeline=pipeline.name, reason=type(error).__name__)
        ended.wait(ASK_SECONDS)
