"""Run one pipeline in a test: hand in rows, advance by a batch, read its tables."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.checkpoint.status import Status
from tidemill.errors import UsageError
from tidemill.names import LATE_OUTPUT, QUARANTINE_OUTPUT, SOURCE_NAME
from tidemill.sinks.batch_commit import StepDone, nothing_more
from tidemill.spec.environment import EnvironmentSpec
from tidemill.spec.named_parts import check_named_parts
from tidemill.spec.near_key import near_key
from tidemill.spec.project import Environment, Pipeline
from tidemill.storage.store import Store
from tidemill.testing.broker import Broker
from tidemill.testing.declared import Declared, find_declared
from tidemill.testing.feeds import (
    Feed,
    FilesFeed,
    Payload,
    RecordsFeed,
    TableFeed,
    TopicFeed,
)
from tidemill.testing.input_columns import ddl_schema, made_up_schema
from tidemill.testing.rows import Row
from tidemill.testing.stand_ins import input_name, with_stand_ins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tables in memory have names in the session, which many tests share.
_VIEW_NUMBERS = itertools.count(1)


def pipeline(
    file: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    spark: SparkSession,
    broker: Broker | None = None,
) -> PipelineRun:
    """Return a pipeline of a project, ready for rows.

    Args:
        file: Its file, `…/conf/pipelines/NAME.yaml`, relative to the working directory of the tests.
        folder: Folder of its tables and state. Pipelines with the same folder see each other's tables.
        spark: The session of the test run, `tidemill_spark`.
        broker: Broker for real topics instead of stand-ins, `tidemill_broker`.

    Raises:
        UsageError: TIDE-TEST-005, if the file is not in a project.
        SpecError: If the declaration, its schema or its transform is wrong.
    """
    return PipelineRun(find_declared(Path(file)), Path(folder), spark, broker)


class PipelineRun:
    """A declared pipeline with the drivers' engine: gate, decoding, transform, ledger, sinks.

    The test replaces only the inputs of its sources, and the sinks other than tables; see `stand_ins.py`.
    Each `advance` is a restart: a query that starts from the checkpoint of the previous one.

    Args:
        declared: The pipeline file.
        folder: Folder of tables and state.
        spark: The session.
        broker: Broker for real topics instead of stand-ins.
    """

    def __init__(
        self, declared: Declared, folder: Path, spark: SparkSession, broker: Broker | None = None
    ) -> None:
        self.declared = declared
        self._spark = spark
        self._broker = broker
        self._topics: dict[str, str] = {}
        sinks = declared.spec.sinks
        self._views = {place: f"tidemill_test_{next(_VIEW_NUMBERS)}" for place, _ in enumerate(sinks)}
        self._sent: dict[str, list[dict[str, Any]]] = {
            sink.place: []
            for sink in sinks
            if sink.delta is None and not (sink.kafka is not None and broker is not None)
        }
        self._pending: dict[str, list[Any]] = {}
        topic_of = None if broker is None else self._new_topic
        spec = with_stand_ins(declared.name, declared.spec, self._views, topic_of)
        self._pipeline = Pipeline(declared.name, spec, self._environment(folder))
        check_named_parts(self._pipeline)
        self._feeds = {name: self._feed(name) for name in self._sources}

    def add_rows(self, rows: Iterable[Row], to: str | None = None, columns: str | None = None) -> None:
        """Hand in rows for the next batch.

        Args:
            rows: Rows by column; in records and tables, a time may be a datetime or ISO 8601.
            to: Name of the source, for a joined table or for one of several streams.
            columns: Columns of a table that does not exist yet, as Spark DDL; by default, the types of the
                values.

        Raises:
            UsageError: TIDE-TEST-003, if a row does not fit; TIDE-TEST-002, if there is no such source.
        """
        name = self._source(to)
        feed = self._feeds[name]
        if columns is not None and isinstance(feed, TableFeed):
            feed.create(ddl_schema(columns))
        self.add_items(feed.rows(list(rows)), name)

    def add_payloads(self, payloads: Iterable[Payload], to: str | None = None) -> None:
        """Hand in records of a topic or lines of files for the next batch, unchanged, even broken ones."""
        name = self._source(to)
        self.add_items(self._feeds[name].payloads(payloads), name)

    def items(self, rows: Sequence[Row], to: str | None = None) -> list[Any]:
        """Convert rows to the form of a source, for `add_items` of any run of the pipeline."""
        return self._feeds[self._source(to)].rows(rows)

    def add_items(self, items: Iterable[Any], to: str | None = None) -> None:
        """Hand in the results of `items` for the next batch."""
        self._pending.setdefault(self._source(to), []).extend(items)

    def advance(self, step_done: StepDone = nothing_more) -> Status:
        """Run the whole input as one batch; with a watermark, also the empty batch that moves it.

        Args:
            step_done: Called after each step of the batches. If it raises, this simulates a crash after the
                step, and the next `advance` is the restart.

        Returns:
            The driver's report of this run: rows by output, late and rejected rows, watermark.

        Raises:
            TidemillError: The error that stopped the pipeline, as in production.
        """
        from tidemill.engine.in_session import Meanwhile, run_in_session

        self.put()
        store, meanwhile = Store(self._pipeline.layout.root), Meanwhile(step_done=step_done)
        try:
            _, reporter = run_in_session(self._spark, self._pipeline, store, meanwhile=meanwhile)
        finally:
            # A sink keeps the rows that it received before a crash.
            self._take_sent()
        return reporter.status

    def put(self) -> None:
        """Put the input where the pipeline reads it without a run, for a driver that the test starts."""
        for name in list(self._pending):
            if self._pending[name]:
                self._feeds[name].put(self._pending[name])
            # Deleted last, so that no input is lost if it could not be put.
            del self._pending[name]

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the current rows of a table of the pipeline, sorted by their values; times in UTC.

        Raises:
            UsageError: TIDE-TEST-001, if the pipeline has no such table.
        """
        tables = [sink.table for sink in self._pipeline.spec.delta_sinks]
        if name not in tables:
            raise _unknown("TIDE-TEST-001", "The pipeline writes no such table.", name, tables)
        return self._rows(self._pipeline.layout.table(name))

    def sent(self, place: str) -> list[dict[str, Any]]:
        """Return the rows that a sink other than a table received: `topic iot_alerts`, `console`, and so on.

        Raises:
            UsageError: TIDE-TEST-001, if the pipeline has no such sink, or its topic is real.
        """
        if place not in self._sent:
            raise _unknown("TIDE-TEST-001", "The pipeline has no such sink.", place, list(self._sent))
        return list(self._sent[place])

    def quarantine(self) -> list[dict[str, Any]]:
        """Return the rejected records, each with its reason and its bytes."""
        return self._rows(self._pipeline.layout.aside(QUARANTINE_OUTPUT, self._pipeline.name))

    def late(self) -> list[dict[str, Any]]:
        """Return the late records of a pipeline with `late: table`."""
        return self._rows(self._pipeline.layout.aside(LATE_OUTPUT, self._pipeline.name))

    def topic_of(self, declared: str) -> str:
        """Return the test's topic for a declared one; only with a broker.

        Raises:
            UsageError: TIDE-TEST-001, if the pipeline names no such topic.
        """
        if self._broker is None:
            raise UsageError(
                "TIDE-TEST-004",
                "The test has no broker, so there is no topic.",
                facts={"pipeline": self.declared.name, "topic": declared},
                fix=f"see what it was given by sent('topic {declared}'), or hand `tidemill_broker` in",
            )
        if declared not in self._topics:
            raise _unknown("TIDE-TEST-001", "The pipeline names no such topic.", declared, self._topics)
        return self._topics[declared]

    def _new_topic(self, declared: str) -> str:
        if declared not in self._topics and self._broker is not None:
            self._topics[declared] = self._broker.new_topic(declared)
        return self._topics[declared]

    @property
    def resolved(self) -> Pipeline:
        """Return the pipeline with its stand-ins, as the engine runs it."""
        return self._pipeline

    def _environment(self, folder: Path) -> Environment:
        size = {self.declared.spec.run.size: {"driver": {"cores": 1, "memory": "1g"}}}
        document: dict[str, Any] = {"root": str(folder.absolute()), "sizes": size}
        if self._broker is not None:
            document["kafka"] = {"bootstrap_servers": self._broker.bootstrap_servers}
        spec = EnvironmentSpec.model_validate(document)
        return Environment("test", folder / "test.yaml", spec, self.declared.project)

    @cached_property
    def _sources(self) -> dict[str, Any]:
        """Return every source by its declared name; `source` if there is only one."""
        spec = self.declared.spec
        return {SOURCE_NAME: spec.source} if spec.sources is None else dict(spec.sources)

    def _feed(self, name: str) -> Feed:
        source, layout = self._sources[name], self._pipeline.layout
        if source.delta is not None:
            return TableFeed(layout.table(source.delta.table), change_feed=source.delta.read_changes)
        parts = self._pipeline.parts
        stream = parts[name] if name in parts else parts[SOURCE_NAME]
        if source.files is not None:
            return FilesFeed(stream, self._spark)
        if not source.is_kafka:
            times = source.socket is None or source.socket.arrival_time
            return TableFeed(
                layout.table(input_name(self.declared.name, name)), made_up_schema(source.kind, times=times)
            )
        named = source.topics_or_pattern
        topic = named[0] if isinstance(named, list) else named.pattern
        if self._broker is not None and source.kafka is not None:
            return TopicFeed(stream, self._broker, self.topic_of(topic))
        return RecordsFeed(stream, topic)

    def _source(self, to: str | None) -> str:
        fed = [name for name in self._sources if name not in self._pipeline.spec.joined]
        if to in (None, SOURCE_NAME) and len(fed) == 1:
            return fed[0]
        if to not in self._sources:
            raise _unknown("TIDE-TEST-002", "The pipeline has no such source.", to or "none", self._sources)
        return to

    def _take_sent(self) -> None:
        for place, sink in enumerate(self._pipeline.spec.sinks):
            if sink.memory is None or not self._spark.catalog.tableExists(self._views[place]):
                continue
            rows = self._spark.table(self._views[place]).toArrow().to_pylist()
            self._spark.catalog.dropTempView(self._views[place])
            seen = self._sent[self.declared.spec.sinks[place].place]
            if (sink.memory.mode or self._pipeline.spec.output_mode) == "complete":
                seen.clear()
            seen += rows

    def _rows(self, path: str) -> list[dict[str, Any]]:
        from tidemill.ledger.read import open_table

        if open_table(path) is None:
            return []
        rows = self._spark.read.format("delta").load(path).toArrow().to_pylist()
        return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def _unknown(error_id: str, problem: str, name: str, known: Iterable[str]) -> UsageError:
    names = list(known)
    near = near_key(name, names)
    fix = f"did you mean {near}?" if near else f"name one of {', '.join(names)}" if names else "it has none"
    return UsageError(error_id, problem, facts={"name": name, "known": ", ".join(names) or "none"}, fix=fix)
