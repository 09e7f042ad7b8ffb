"""One pipeline file: source -> payload -> transform -> sinks."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from keyword import iskeyword
from typing import Self, TypeVar, cast

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
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.event_time import EventTime
from tidemill.spec.files_payload import check_files_payload
from tidemill.spec.models import DeclaredModel
from tidemill.spec.named_source import NamedSource
from tidemill.spec.payload import Payload
from tidemill.spec.poison import poison_problem
from tidemill.spec.refusal import RefusedError
from tidemill.spec.run import Run
from tidemill.spec.sinks import Sink
from tidemill.spec.sources import Source
from tidemill.spec.strict import Strict
from tidemill.spec.text import (
    TRANSFORM_PATTERN,
    Line,
    Sentence,
    SourceName,
)

Named = TypeVar("Named", NamedSource, DeclaredModel)


class PipelineSpec(Strict):
    """A declared pipeline. Its name is the name of its file."""

    description: Sentence = Field(description="One sentence that describes the result.")
    owner: Line = Field(description="Team that is responsible for the pipeline.")
    source_: Source | None = Field(None, alias="source", description="Source of the records.")
    payload_: Payload | None = Field(
        None, alias="payload", description="Format of the records of Kafka, Event Hubs, IoT Hub or files."
    )
    event_time_: EventTime | None = Field(
        None, alias="event_time", description="Event-time column, and how late events may arrive."
    )
    sources: dict[SourceName, NamedSource] | None = Field(
        None,
        description="Instead of `source`, `payload` and `event_time`: streams, and the tables to join with "
        "them, by name. The names are the transform's parameters. The checkpoint identifies several streams "
        "by their names.",
        min_length=1,
        max_length=20,
    )
    transform: str | None = Field(
        None,
        description="file:function in spark_apps/transforms: a pure function DataFrame -> DataFrame. With "
        "`sources`, it takes one DataFrame for each. Or file.sql in the same folder: one query over the "
        "sources by name, or over `source` if there is only one.",
        pattern=TRANSFORM_PATTERN,
    )
    models: dict[SourceName, DeclaredModel] | None = Field(
        None,
        description="MLflow models by name. The names are additional parameters of the transform. There, "
        "`fraud.predict(rows)` returns the rows with the columns of a Spark model, or with `prediction`.",
        min_length=1,
        max_length=20,
    )
    # Each sink reads the batch again from the cache. More sinks than this belong into separate pipelines.
    sinks: list[Sink] = Field(
        description="Destinations of the result. Every sink gets each row that matches its `where`.",
        min_length=1,
        max_length=20,
    )
    run: Run = Field(Run(), description="Mode, trigger, schedule and limits of runs.")

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
        for files in self.parts.values():
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
        """Return for each stream, by its name in the ledger, this declaration with that stream only."""
        names = self._stream_names
        if len(names) < 2:
            return {SOURCE_NAME: self}
        sources = self.sources or {}
        return {name: self.model_copy(update={"sources": {name: sources[name]}}) for name in names}

    @property
    def has_named_streams(self) -> bool:
        """Return True if there are several streams, which the checkpoint identifies by name."""
        return len(self._stream_names) > 1

    @property
    def is_replayable(self) -> bool:
        """Return True if a batch can be read again; otherwise each start begins from scratch."""
        return all(stream.source.facts.replayable for stream in self.streams.values())

    @property
    def parameter(self) -> str:
        """Return the transform's parameter for the single stream."""
        return next(iter(self._stream_names), SOURCE_NAME)

    @property
    def source(self) -> Source:
        """Return the source of the single stream."""
        # `_sources_fit` ensures that there is one.
        return cast("Source", self._stream or self.source_)

    @property
    def payload(self) -> Payload | None:
        """Return the payload of the single stream."""
        return self.payload_ if self._stream is None else self._stream.payload

    @property
    def event_time(self) -> EventTime | None:
        """Return the event time of the single stream."""
        return self.event_time_ if self._stream is None else self._stream.event_time

    @property
    def tables(self) -> dict[str, str]:
        """Return the table of each source that is joined as a whole, by the source's name."""
        named = (self.sources or {}).items()
        return {name: source.delta.table for name, source in named if source.as_ == "table" and source.delta}

    @property
    def joined_files(self) -> dict[str, PipelineSpec]:
        """Return, for each source whose files are joined as a whole, this declaration with it as the stream.

        The code that reads and decodes files expects streams. A bad record stops the batch.
        """
        joined = {n: s for n, s in (self.sources or {}).items() if s.as_ == "table" and s.files is not None}
        return {
            name: self.model_copy(update={"sources": {name: source.as_stream_that_stops()}})
            for name, source in joined.items()
        }

    @property
    def parts(self) -> dict[str, PipelineSpec]:
        """Return the streams and the joined folders, each as `streams` and `joined_files` have it."""
        return self.streams | self.joined_files

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
            # The caller would handle only the first stream.
            raise LookupError(f"the pipeline has several streams, {', '.join(names)}: ask each of `streams`")
        return self.sources[names[0]]

    @property
    def delta_sinks(self) -> list[DeltaSink]:
        """Return the Delta sinks of this pipeline."""
        return [sink.delta for sink in self.sinks if sink.delta is not None]

    @property
    def sink_transforms(self) -> dict[str, str]:
        """Return the transforms of sinks by their keys in the file."""
        keys = ((f"sinks[{place}].{sink.kind}.transform", sink) for place, sink in enumerate(self.sinks))
        return {key: sink.chosen.transform for key, sink in keys if sink.chosen.transform is not None}

    @property
    def file_format(self) -> str:
        """Return the file format of the single stream; empty for other sources."""
        files = self.source.files
        if files is None:
            return ""
        return self.payload.format if self.payload is not None else files.format or ""

    @property
    def stops_at_invalid(self) -> bool:
        """Return True if the single stream stops at the first record that does not fit."""
        declared = self.payload.chosen if self.payload is not None else self.source.files
        return declared is not None and declared.on_invalid == "fail"

    @property
    def rejects_records(self) -> bool:
        """Return True if reading can reject records."""
        return any(
            stream.payload is not None or stream.source.files is not None or stream.max_ahead is not None
            for stream in self.streams.values()
        )

    @property
    def has_quarantine(self) -> bool:
        """Return True if records can be rejected or rows that violate an expectation quarantined."""
        return self.rejects_records or any(table.quarantines for table in self.delta_sinks)

    @property
    def quarantines_rows(self) -> bool:
        """Return True if unusable records go to the quarantine instead of stopping the pipeline."""
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
        """Return True if a table has expectations."""
        return any(table.expectations for table in self.delta_sinks)

    @property
    def leaves_out_poison(self) -> bool:
        """Return True if records at which the transform fails go to the quarantine."""
        return self.run.on_poison == "quarantine"

    @property
    def keeps_late(self) -> bool:
        """Return True if late records go to a separate table."""
        times = [stream.event_time for stream in self.streams.values()]
        return any(event_time is not None and event_time.late == "table" for event_time in times)

    @property
    def sets_aside(self) -> bool:
        """Return True if any record can be set aside as rejected or late."""
        return self.rejects_records or self.keeps_late

    @property
    def asides(self) -> tuple[str, ...]:
        """Return the tables of rejected and late records that the pipeline may have.

        An earlier declaration may have written them, because payload, expectations and `late` can change
        between two starts.
        """
        timed = any(stream.event_time is not None for stream in self.streams.values())
        return (QUARANTINE_OUTPUT, LATE_OUTPUT) if timed else (QUARANTINE_OUTPUT,)

    @property
    def max_ahead(self) -> timedelta | None:
        """Return how far an event of the single stream may be ahead of its arrival; None if unlimited."""
        limit = "off" if self.event_time is None else self.event_time.max_ahead
        return limit if isinstance(limit, timedelta) else None

    @property
    def sink_code(self) -> dict[str, str]:
        """Return the classes and functions that sinks pass rows to, by their keys in the file."""
        return {
            f"sinks[{place}].{sink.kind}": sink.code
            for place, sink in enumerate(self.sinks)
            if sink.code is not None
        }

    @property
    def output_mode(self) -> OutputMode:
        """Return Spark's output mode that the sinks need; append if no sink needs another.

        Real-time mode supports only update, which equals append for its stateless rows.
        """
        usual: OutputMode = "update" if self.run.trigger_of(self.run.mode) == "real_time" else "append"
        return next(iter(modes_needed(self.sinks)), usual)
