"""One pipeline file: source -> payload -> transform -> sinks."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from keyword import iskeyword
from typing import Literal, Self, TypeVar, cast

from pydantic import Field, field_validator, model_validator

from tidemill.names import LATE_OUTPUT, QUARANTINE_OUTPUT, SOURCE_NAME
from tidemill.spec.capabilities import NO_RECORDS, OutputMode
from tidemill.spec.combinations import (
    check_combinations,
    check_new_columns,
    check_sinks,
    check_without_batches,
    modes_needed,
)
from tidemill.spec.event_time import EventTime
from tidemill.spec.files_payload import check_files_payload
from tidemill.spec.models import DeclaredModel
from tidemill.spec.named_source import NamedSource
from tidemill.spec.payload import Payload
from tidemill.spec.poison import DEFAULT_MOST, LARGEST_MOST, poison_problem
from tidemill.spec.refusal import RefusedError
from tidemill.spec.schedule import Schedule
from tidemill.spec.sinks import DeltaSink, Sink
from tidemill.spec.sources import Source
from tidemill.spec.state_store import StateStore
from tidemill.spec.strict import Strict
from tidemill.spec.text import (
    TRANSFORM_PATTERN,
    Line,
    Sentence,
    SizeName,
    SourceName,
)
from tidemill.spec.trigger import DEFAULT_TRIGGERS, DeclaredTrigger, Trigger
from tidemill.spec.units import SHORTEST_PATIENCE, Count, Duration, Patience
from tidemill.spec.without_batches import WITHOUT_BATCHES

Named = TypeVar("Named", NamedSource, DeclaredModel)


class Run(Strict):
    """How the pipeline runs."""

    mode: Literal["stream", "incremental"] = Field("stream", description="Long-running, or by schedule.")
    trigger_: DeclaredTrigger | None = Field(
        None,
        alias="trigger",
        description="Of a stream: shortest time between the starts of two batches. Default: `0 seconds`, as "
        "in Spark: a batch starts as soon as the last one has ended and there is something to read. A longer "
        "one, e.g. `10 seconds`, makes fewer and larger files. Or `{continuous: 1 second}`, `{real_time: 5 "
        "minutes}`, which write rows as they come, with fewer promises. Of mode incremental: available_now, "
        "the default there, or once.",
    )
    progress_within: Patience | None = Field(
        None,
        description="Longest time of a stream without a committed batch and without an empty source, before "
        "it counts as making no progress. Default: that of the environment, or three triggers.",
    )
    schedule: Schedule | None = Field(
        None, description="Cron expression in UTC or preset such as @daily; for mode incremental only."
    )
    deadline: Duration | None = Field(
        None,
        description="For mode incremental: how long after it was queued a run must have ended. One that is "
        "late is told to `notify` of the environment, and goes on.",
    )
    asset_every: Duration | None = Field(
        None,
        description="For mode stream: how often, at most, what was committed since is told as one event of "
        "each table's Airflow asset, so that DAGs scheduled on it run. Without it a stream tells none.",
    )
    size: SizeName = Field("small", description="Driver size named in the environment.")
    # Each partition of a stateful operator is a state store of its own: thousands are a wrong unit.
    shuffle_partitions: Count = Field(
        2,
        le=4096,
        description="Partitions of stateful operators. Fixed when the checkpoint is born: Spark ignores a "
        "later change.",
    )
    state_store: StateStore = Field(
        "rocksdb",
        description="What holds the state of stateful operators: `rocksdb`, on disk beside the heap; or "
        "`memory`, all of it in the heap, for a state of a few megabytes. Fixed when the checkpoint is born. "
        "`transformWithState` and `tidemill checkpoint repartition` need `rocksdb`.",
    )
    unbounded_state: Literal["refused", "accepted"] = Field(
        "refused",
        description="An inner join of two streams, or a deduplication, without a bound in event time: it "
        "keeps every row or key for ever. accepted: it runs, with the warning TIDE-PLAN-046 in `tidemill "
        "plan NAME --spark`, and `tidemill checkpoint doctor` reports how fast its state grows. Outer and "
        "semi joins always need the bound: without it they never find out that a row has no match.",
    )
    spark_ui: bool | None = Field(
        None,
        description="Whether its drivers serve Spark's own UI. Default: as the environment says.",
    )
    rewindable: Duration | None = Field(
        None,
        description="How far back the pipeline can be rewound, e.g. `3 days`. Default: 4 hours, or less "
        "where that is too many files. `tidemill plan` tells what is kept.",
    )

    on_poison: Literal["stop", "quarantine"] = Field(
        "stop",
        description="A record of a topic at which the transform itself fails, such as a division by zero or "
        "a Python function that raises. stop: each start repeats the batch and fails. quarantine: the batch "
        "is run again in parts until the record is found; it goes to the quarantine with the error "
        "(`transform_failed`), and the stream goes on. Not for transforms that keep state.",
    )
    max_poison_records: Count | None = Field(
        None,
        le=LARGEST_MOST,
        description=f"Most records that the same code may leave out so, of all batches; {DEFAULT_MOST} by "
        "default. With one more the pipeline stops and names them. A backfill has as many of its own.",
    )

    @model_validator(mode="after")
    def _schedule_fits_mode(self) -> Self:
        if self.schedule is not None and self.mode != "incremental":
            raise ValueError("`schedule` is for mode incremental; a stream runs all the time")
        if self.deadline is not None and self.mode != "incremental":
            raise ValueError("`deadline` is for mode incremental; a stream has `progress_within`")
        if self.asset_every is not None and self.mode != "stream":
            raise ValueError("`asset_every` is for mode stream; each incremental run tells what it wrote")
        return self

    @field_validator("asset_every")
    @classmethod
    def _not_within_a_minute(cls, every: timedelta | None) -> timedelta | None:
        if every is not None and every < SHORTEST_PATIENCE:
            raise ValueError("expected at least 1 minute: each look is a task")
        return every

    @model_validator(mode="after")
    def _bound_has_a_use(self) -> Self:
        if self.max_poison_records is not None and self.on_poison == "stop":
            raise ValueError("`max_poison_records` goes with `on_poison: quarantine`")
        return self

    @property
    def accepts_unbounded_state(self) -> bool:
        """Return True if the state may grow for ever."""
        return self.unbounded_state == "accepted"

    @property
    def most_poison(self) -> int:
        """Most records that may be left out because the transform fails at them."""
        return self.max_poison_records or DEFAULT_MOST

    @property
    def own_trigger(self) -> Trigger:
        """When batches are made in its own mode: as declared, else the default of the mode."""
        return self.trigger_ or DEFAULT_TRIGGERS[self.mode]

    @property
    def trigger(self) -> timedelta:
        """Shortest time between the starts of two batches of a stream."""
        return self.own_trigger.interval

    def is_without_batches(self, mode: str) -> bool:
        """Whether it writes rows as they come, without foreachBatch, if it runs in this mode."""
        return self.trigger_of(mode) in WITHOUT_BATCHES

    def trigger_of(self, mode: str) -> str:
        """When batches are made if it runs as a stream or incrementally, perhaps other than declared."""
        if mode == self.mode:
            return self.own_trigger.kind
        return "interval" if mode == "stream" else "available_now"


class PipelineSpec(Strict):
    """One declared flow. Its name is the name of its file."""

    description: Sentence = Field(description="One sentence: what the result is.")
    owner: Line = Field(description="Team that answers for it.")
    source_: Source | None = Field(None, alias="source", description="Where records come from.")
    payload_: Payload | None = Field(
        None, alias="payload", description="How records of Kafka, Event Hubs, IoT Hub or files are decoded."
    )
    event_time_: EventTime | None = Field(
        None, alias="event_time", description="When things happened, and how late they may come."
    )
    sources: dict[SourceName, NamedSource] | None = Field(
        None,
        description="In the place of `source`, `payload` and `event_time`: streams, and the tables that they "
        "are joined with, by name. The names are the transform's parameters. Several streams are in the "
        "checkpoint by their names.",
        min_length=1,
        max_length=20,
    )
    transform: str | None = Field(
        None,
        description="file:function in spark_apps/transforms, a pure function DataFrame -> DataFrame; with "
        "`sources`, of one DataFrame for each. Or file.sql there: one query over the sources by their names, "
        "over `source` if there is only one.",
        pattern=TRANSFORM_PATTERN,
    )
    models: dict[SourceName, DeclaredModel] | None = Field(
        None,
        description="Models of MLflow by name. The names are further parameters of the transform, where "
        "`fraud.predict(rows)` gives the rows with the columns of a Spark model, or with `prediction`.",
        min_length=1,
        max_length=20,
    )
    # Each sink reads the batch again from the cache; more than this wants pipelines of their own.
    sinks: list[Sink] = Field(
        description="Where the result goes; each row to every sink that takes it.",
        min_length=1,
        max_length=20,
    )
    run: Run = Field(Run(), description="How it runs.")

    @field_validator("run", mode="before")
    @classmethod
    def _empty_run_is_default(cls, run: object) -> object:
        return {} if run is None else run

    @field_validator("sources", "models")
    @classmethod
    def _names_are_parameters(cls, named: dict[str, Named] | None) -> dict[str, Named] | None:
        reserved = [name for name in named or {} if iskeyword(name)]
        if reserved:
            raise ValueError(f"`{reserved[0]}` cannot be a parameter: it is a word of Python's own")
        return named

    @model_validator(mode="after")
    def _models_are_applied(self) -> Self:
        if self.models is None:
            return self
        if self.transform is None or self.transform.endswith(".sql"):
            raise ValueError("`models` need a `transform` that is a function: it is given each by its name")
        if both := sorted(self.models.keys() & (self.sources or {}).keys()):
            raise ValueError(f"{both[0]} is a source and a model: a parameter has one meaning")
        return self

    @model_validator(mode="after")
    def _sources_fit(self) -> Self:
        if (self.source_ is None) == (self.sources is None):
            found = "none" if self.source_ is None else "both"
            raise ValueError(f"expected exactly one of source, sources; found {found}")
        if self.sources is None:
            return self
        streams = [name for name, source in self.sources.items() if source.as_ == "stream"]
        if not streams:
            raise ValueError("one of `sources` is a stream; only tables (`as: table`) were found")
        for key, value in (("payload", self.payload_), ("event_time", self.event_time_)):
            if value is not None:
                raise ValueError(f"`{key}` belongs to the source: sources.{streams[0]}.{key}")
        if self.transform is None:
            raise ValueError("several sources need a `transform` that joins them")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        for stream in self.streams.values():
            if stream.payload is not None and not stream.source.facts.has_records:
                raise RefusedError(NO_RECORDS, source=stream.source.kind)
        for files in (*self.streams.values(), *self.joined_files.values()):
            if files.source.files is not None:
                check_files_payload(files.source.files, files.payload)
        check_sinks(self.sinks)
        check_combinations(self)
        check_new_columns(self)
        check_without_batches(self)
        return self

    @model_validator(mode="after")
    def _poison_can_be_found(self) -> Self:
        if self.leaves_out_poison and (problem := poison_problem(self)):
            raise ValueError(f"`on_poison: quarantine` does not go here: {problem}")
        return self

    @model_validator(mode="after")
    def _topics_are_read_once(self) -> Self:
        sources = {name: stream.source for name, stream in self.streams.items()}
        for (name, source), (other, beside) in permutations(sources.items(), 2):
            if shared := source.topics_shared(beside):
                raise ValueError(
                    f"{name} and {other} read the same topic, {shared[0]}: read it once, and take it "
                    "apart in the transform"
                )
        return self

    @model_validator(mode="after")
    def _late_rows_are_left_out(self) -> Self:
        if self.keeps_late and self.has_named_streams:
            raise ValueError(
                "`late: table` is for one stream: several share one watermark, that of the slowest. Leave "
                "`late` out, or give each stream a pipeline of its own that writes a table, and join those"
            )
        if self.keeps_late and self.output_mode == "complete":
            place = modes_needed(self.sinks)["complete"]
            raise ValueError(
                f"`late: table` does not go with {place}: in complete mode Spark keeps every window and "
                "takes late rows into it. Leave `late` out, or write with `mode: merge` or `append`"
            )
        return self

    @model_validator(mode="after")
    def _output_is_not_input(self) -> Self:
        sources = [stream.source for stream in self.streams.values()]
        read = {*self.tables.values(), *(source.delta.table for source in sources if source.delta)}
        both = [sink.table for sink in self.delta_sinks if sink.table in read]
        if both:
            raise ValueError(f"the pipeline would read what it writes: table {both[0]}")
        topics = {topic for source in sources if source.kafka for topic in source.kafka.named_topics}
        looped = [sink.kafka.topic for sink in self.sinks if sink.kafka and sink.kafka.topic in topics]
        if looped:
            raise ValueError(f"the pipeline would read what it writes: topic {looped[0]}")
        return self

    @property
    def streams(self) -> dict[str, PipelineSpec]:
        """For each source that is a stream, by its name in the ledger: this declaration with no other one."""
        names = self._stream_names
        if len(names) < 2:
            return {SOURCE_NAME: self}
        sources = self.sources or {}
        return {name: self.model_copy(update={"sources": {name: sources[name]}}) for name in names}

    @property
    def has_named_streams(self) -> bool:
        """Whether it has several streams, which are in the checkpoint by their names."""
        return len(self._stream_names) > 1

    @property
    def is_replayable(self) -> bool:
        """Whether a batch can be read again; else each start begins anew."""
        return all(stream.source.facts.replayable for stream in self.streams.values())

    @property
    def parameter(self) -> str:
        """The transform's parameter for the one stream."""
        return next(iter(self._stream_names), SOURCE_NAME)

    @property
    def source(self) -> Source:
        """The one stream's source, whose records are read, each once."""
        # `_sources_fit` has seen to it that there is one.
        return cast("Source", self._stream or self.source_)

    @property
    def payload(self) -> Payload | None:
        """How its records are decoded."""
        return self.payload_ if self._stream is None else self._stream.payload

    @property
    def event_time(self) -> EventTime | None:
        """When its records happened."""
        return self.event_time_ if self._stream is None else self._stream.event_time

    @property
    def tables(self) -> dict[str, str]:
        """The table of each source that is joined as a whole, by its name."""
        named = (self.sources or {}).items()
        return {name: source.delta.table for name, source in named if source.as_ == "table" and source.delta}

    @property
    def joined_files(self) -> dict[str, PipelineSpec]:
        """For each source whose files are joined as a whole, by its name: this declaration with it as stream.

        What reads files and decodes them knows streams. A bad record stops the batch.
        """
        joined = {n: s for n, s in (self.sources or {}).items() if s.as_ == "table" and s.files is not None}
        return {
            name: self.model_copy(update={"sources": {name: source.as_stream_that_stops()}})
            for name, source in joined.items()
        }

    @property
    def joined(self) -> list[str]:
        """Names of the sources that are joined as a whole."""
        return [name for name, source in (self.sources or {}).items() if source.as_ == "table"]

    @property
    def _stream_names(self) -> list[str]:
        return [name for name, source in (self.sources or {}).items() if source.as_ == "stream"]

    @property
    def _stream(self) -> NamedSource | None:
        if self.sources is None:
            return None
        names = self._stream_names
        if len(names) > 1:
            # Whoever asks would do for the first what all of them need.
            raise LookupError(f"the pipeline has several streams, {', '.join(names)}: ask each of `streams`")
        return self.sources[names[0]]

    @property
    def delta_sinks(self) -> list[DeltaSink]:
        """The tables that this pipeline writes."""
        return [sink.delta for sink in self.sinks if sink.delta is not None]

    @property
    def sink_transforms(self) -> dict[str, str]:
        """The transforms of sinks, by their keys in the file."""
        keys = ((f"sinks[{place}].{sink.kind}.transform", sink) for place, sink in enumerate(self.sinks))
        return {key: sink.chosen.transform for key, sink in keys if sink.chosen.transform is not None}

    @property
    def file_format(self) -> str:
        """Format of the files of the one stream; empty for other sources."""
        files = self.source.files
        if files is None:
            return ""
        return self.payload.format if self.payload is not None else files.format or ""

    @property
    def stops_at_invalid(self) -> bool:
        """True if the one stream stops at the first record that does not fit."""
        declared = self.payload.chosen if self.payload is not None else self.source.files
        return declared is not None and declared.on_invalid == "fail"

    @property
    def rejects_records(self) -> bool:
        """Whether records can be rejected when they are read."""
        return any(
            stream.payload is not None or stream.source.files is not None or stream.max_ahead is not None
            for stream in self.streams.values()
        )

    @property
    def has_quarantine(self) -> bool:
        """Whether records can be rejected, or rows of a table that violate an expectation."""
        return self.rejects_records or any(table.quarantines for table in self.delta_sinks)

    @property
    def quarantines_rows(self) -> bool:
        """True if records that cannot be used go to the quarantine instead of stopping the pipeline."""
        readers = [
            stream.payload.chosen if stream.payload is not None else stream.source.files
            for stream in self.streams.values()
        ]
        return (
            any(reader is not None and reader.on_invalid == "quarantine" for reader in readers)
            or any(table.quarantines for table in self.delta_sinks)
            or self.leaves_out_poison
        )

    @property
    def has_expectations(self) -> bool:
        """Whether rows of a table are checked."""
        return any(table.expectations for table in self.delta_sinks)

    @property
    def leaves_out_poison(self) -> bool:
        """Whether records at which the transform fails go to the quarantine, and the stream goes on."""
        return self.run.on_poison == "quarantine"

    @property
    def keeps_late(self) -> bool:
        """Whether late records are set aside, into a table of their own."""
        times = [stream.event_time for stream in self.streams.values()]
        return any(event_time is not None and event_time.late == "table" for event_time in times)

    @property
    def sets_aside(self) -> bool:
        """Whether any record can be set aside, as rejected or as late."""
        return self.rejects_records or self.keeps_late

    @property
    def asides(self) -> tuple[str, ...]:
        """The tables of records that were set aside which the pipeline may have.

        They may be of an earlier declaration: payload, expectations and `late` can change between two starts.
        """
        timed = any(stream.event_time is not None for stream in self.streams.values())
        return (QUARANTINE_OUTPUT, LATE_OUTPUT) if timed else (QUARANTINE_OUTPUT,)

    @property
    def max_ahead(self) -> timedelta | None:
        """How far an event of the one stream may be ahead of its arrival; None without a limit."""
        limit = "off" if self.event_time is None else self.event_time.max_ahead
        return limit if isinstance(limit, timedelta) else None

    @property
    def sink_code(self) -> dict[str, str]:
        """Classes and functions that sinks hand rows to, by their keys in the file."""
        return {
            f"sinks[{place}].{sink.kind}": sink.code
            for place, sink in enumerate(self.sinks)
            if sink.code is not None
        }

    @property
    def output_mode(self) -> OutputMode:
        """Spark's output mode, as the sinks need it; append where none says so.

        Real-time mode knows update only, the same for the rows without state that it writes.
        """
        usual: OutputMode = "update" if self.run.trigger_of(self.run.mode) == "real_time" else "append"
        return next(iter(modes_needed(self.sinks)), usual)
