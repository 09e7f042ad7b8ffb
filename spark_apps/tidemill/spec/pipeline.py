"""One pipeline file: source -> payload -> transform -> sinks."""

from __future__ import annotations

from datetime import timedelta
from keyword import iskeyword
from typing import Literal, Self, cast

from pydantic import Field, field_validator, model_validator

from tidemill.spec.event_time import EventTime
from tidemill.spec.named_source import NamedSource
from tidemill.spec.payload import Payload
from tidemill.spec.schedule import Schedule
from tidemill.spec.sinks import DeltaSink, Sink
from tidemill.spec.sources import Source
from tidemill.spec.strict import Strict
from tidemill.spec.text import (
    TRANSFORM_PATTERN,
    Line,
    Sentence,
    SizeName,
    SourceName,
)
from tidemill.spec.units import Count, Duration, Patience

OutputMode = Literal["append", "update", "complete"]

_OUTPUT_MODE_OF: dict[str, OutputMode] = {"append": "append", "merge": "update", "replace": "complete"}


class Run(Strict):
    """How the pipeline runs."""

    mode: Literal["stream", "incremental"] = Field("stream", description="Long-running, or by schedule.")
    trigger: Duration = Field(
        timedelta(seconds=10), description="Shortest time between the starts of two batches of a stream."
    )
    progress_within: Patience | None = Field(
        None,
        description="Longest time of a stream without a committed batch and without an empty source, before "
        "it counts as making no progress. Default: that of the environment, or three triggers.",
    )
    schedule: Schedule | None = Field(
        None, description="Cron expression in UTC or preset such as @daily; for mode incremental only."
    )
    size: SizeName = Field("small", description="Driver size named in the environment.")
    # Each partition of a stateful operator is a state store of its own: thousands are a wrong unit.
    shuffle_partitions: Count = Field(
        2,
        le=4096,
        description="Partitions of stateful operators. Fixed when the checkpoint is born: Spark ignores a "
        "later change.",
    )
    rewindable: Duration | None = Field(
        None,
        description="How far back the pipeline can be rewound, e.g. `3 days`. Default: 4 hours, or less "
        "where that is too many files. `tidemill plan` tells what is kept.",
    )

    @model_validator(mode="after")
    def _schedule_fits_mode(self) -> Self:
        if self.schedule is not None and self.mode != "incremental":
            raise ValueError("`schedule` is for mode incremental; a stream runs all the time")
        return self


class PipelineSpec(Strict):
    """One declared flow. Its name is the name of its file."""

    description: Sentence = Field(description="One sentence: what the result is.")
    owner: Line = Field(description="Team that answers for it.")
    source_: Source | None = Field(None, alias="source", description="Where records come from.")
    payload_: Payload | None = Field(
        None, alias="payload", description="How Kafka or Event Hubs records are decoded."
    )
    event_time_: EventTime | None = Field(
        None, alias="event_time", description="When things happened, and how late they may come."
    )
    sources: dict[SourceName, NamedSource] | None = Field(
        None,
        description="In the place of `source`, `payload` and `event_time`: a stream and the tables that it "
        "is joined with, by name. The names are the transform's parameters.",
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

    @field_validator("sources")
    @classmethod
    def _names_are_parameters(cls, sources: dict[str, NamedSource] | None) -> dict[str, NamedSource] | None:
        reserved = [name for name in sources or {} if iskeyword(name)]
        if reserved:
            raise ValueError(f"`{reserved[0]}` cannot be a parameter: it is a word of Python's own")
        return sources

    @model_validator(mode="after")
    def _sources_fit(self) -> Self:
        if (self.source_ is None) == (self.sources is None):
            found = "none" if self.source_ is None else "both"
            raise ValueError(f"expected exactly one of source, sources; found {found}")
        if self.sources is None:
            return self
        streams = [name for name, source in self.sources.items() if source.as_ == "stream"]
        if len(streams) != 1:
            raise ValueError(
                f"one of `sources` is a stream, the others are tables (`as: table`); found "
                f"{', '.join(streams) or 'no stream'}"
            )
        for key, value in (("payload", self.payload_), ("event_time", self.event_time_)):
            if value is not None:
                raise ValueError(f"`{key}` belongs to the source: sources.{streams[0]}.{key}")
        if self.transform is None:
            raise ValueError("several sources need a `transform` that joins them")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        tables = [sink.table for sink in self.delta_sinks]
        repeated = sorted({table for table in tables if tables.count(table) > 1})
        if repeated:
            raise ValueError(f"two sinks write the same table: {', '.join(repeated)}")
        modes = {sink.mode for sink in self.delta_sinks}
        if len(modes) > 1:
            raise ValueError(
                "sinks of one pipeline share one result, so their modes must agree; "
                f"found {', '.join(sorted(modes))}"
            )
        if len(self._output_modes) > 1:
            found = ", ".join(f"{name} needs {mode}" for mode, name in sorted(self._output_modes.items()))
            raise ValueError(
                "sinks of one pipeline share one result, which Spark gives in one output mode; "
                f"{found}. Leave `mode` of a console out, or give one of them a pipeline of its own"
            )
        if self.payload is not None and not self.source.is_kafka:
            raise ValueError("`payload` decodes Kafka or Event Hubs records; a files source has `format`")
        return self

    @model_validator(mode="after")
    def _output_is_not_input(self) -> Self:
        read = {*self.tables.values(), *([self.source.delta.table] if self.source.delta else [])}
        both = [sink.table for sink in self.delta_sinks if sink.table in read]
        if both:
            raise ValueError(f"the pipeline would read what it writes: table {both[0]}")
        topics = self.source.kafka.named_topics if self.source.kafka else []
        looped = [sink.kafka.topic for sink in self.sinks if sink.kafka and sink.kafka.topic in topics]
        if looped:
            raise ValueError(f"the pipeline would read what it writes: topic {looped[0]}")
        return self

    @property
    def stream_name(self) -> str | None:
        """Name of the source that is the stream; None where the only source has none."""
        named = self.sources or {}
        return next((name for name, source in named.items() if source.as_ == "stream"), None)

    @property
    def source(self) -> Source:
        """The source whose records are read, each once."""
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
    def _stream(self) -> NamedSource | None:
        return None if self.sources is None else self.sources[self.stream_name or ""]

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
    def rejects_records(self) -> bool:
        """Whether records can be rejected, so that the pipeline has a quarantine."""
        return self.payload is not None or self.source.has_broken_lines or self.max_ahead is not None

    @property
    def max_ahead(self) -> timedelta | None:
        """How far an event may be ahead of its arrival; None without a limit."""
        limit = "off" if self.event_time is None else self.event_time.max_ahead
        return limit if isinstance(limit, timedelta) else None

    @property
    def output_mode(self) -> OutputMode:
        """Spark's output mode, as the sinks need it; append where none says so."""
        return next(iter(self._output_modes), "append")

    @property
    def _output_modes(self) -> dict[OutputMode, str]:
        """Each output mode that a sink needs, with the first one that does."""
        found: dict[OutputMode, str] = {}
        for sink in self.sinks:
            if sink.delta is not None:
                found.setdefault(_OUTPUT_MODE_OF[sink.delta.mode], f"{sink.delta.table} ({sink.delta.mode})")
            elif sink.files is not None:
                # A file cannot be taken back, so it holds rows that do not change any more.
                found.setdefault("append", f"files {sink.files.path}")
            elif sink.console is not None and sink.console.mode is not None:
                found.setdefault(sink.console.mode, "the console")
        return found
