"""Asking the brokers how long they keep a pipeline's records, for the time to data loss.

In a thread of its own: brokers that are silent delay nobody, and without an answer nothing is told.
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

# Seconds between two questions: someone may shorten a topic's retention at any time, and unread records of
# the shortest usual one, an hour, are then gone within it.
ASK_SECONDS = 900.0

log = structlog.get_logger()


@contextmanager
def retention_watched(pipeline: Pipeline, reporter: Reporter) -> Iterator[None]:
    """Keep the retention in the driver's status for the length of a `with` block."""
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
            # A new one each time: it does not ask a broker again that did not answer.
            found = shortest_of_brokers(pipeline, TopicRetention())
            # Afterwards the status may be another driver's.
            if found is not None and not ended.is_set():
                reporter.source_keeps(found.keeps)
        except Exception as error:  # noqa: BLE001  # telemetry must never stop a driver
            log.warning("retention_unknown", pipeline=pipeline.name, reason=type(error).__name__)
        ended.wait(ASK_SECONDS)
