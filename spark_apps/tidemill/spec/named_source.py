"""One of several sources: `sources: {<name>: {<kind>: {...}, as: stream | table, …}}`."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tidemill.spec.capabilities import NOT_A_TABLE
from tidemill.spec.event_time import EventTime
from tidemill.spec.files_source import FOR_STREAMS, FilesSource
from tidemill.spec.payload import Payload
from tidemill.spec.refusal import RefusedError
from tidemill.spec.sources import DeltaSource, Source


class NamedSource(Source):
    """One of several sources, with its payload and event time."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})
    beside: ClassVar[frozenset[str]] = frozenset({"as_", "payload", "event_time"})

    as_: Literal["stream", "table"] = Field(
        "stream",
        alias="as",
        description="stream: each record is read once. table: each batch reads the newest version of the "
        "whole Delta table, or all files of the folder (or one file), for joins. A bad record or file of a "
        "joined folder stops the pipeline.",
    )
    payload: Payload | None = Field(
        None, description="Format of the records of Kafka, Event Hubs, IoT Hub or files."
    )
    event_time: EventTime | None = Field(
        None, description="Event-time column, and how late events may arrive."
    )

    @model_validator(mode="after")
    def _a_table_is_read_whole(self) -> Self:
        if self.as_ == "stream":
            return self
        if not self.facts.as_table:
            raise RefusedError(NOT_A_TABLE, source=self.kind)
        if self.event_time is not None:
            raise ValueError("`event_time` is for a stream; `as: table` has no late rows")
        if self.files is not None:
            _check_joined_files(self.files, self.payload)
        if self.delta is not None:
            _check_joined_table(self.delta, self.payload)
        return self

    def as_stream_that_stops(self) -> NamedSource:
        """Return the source read as a stream that stops at the first bad record."""
        stops, payload = {"on_invalid": "fail"}, self.payload
        changes: dict[str, object] = {"as_": "stream"}
        if payload is not None:
            chosen = payload.chosen.model_copy(update=stops)
            changes["payload"] = payload.model_copy(update={payload.kind: chosen})
        elif self.files is not None:
            changes["files"] = self.files.model_copy(update=stops)
        return self.model_copy(update=changes)


def _check_joined_table(delta: DeltaSource, payload: Payload | None) -> None:
    for key in ("starting_version", "starting_at", "max_files_per_batch"):
        if getattr(delta, key) is not None:
            raise ValueError(f"`{key}` is for a stream; `as: table` reads the whole table")
    if delta.options or delta.changes != "fail" or delta.read_changes:
        raise ValueError(
            "`changes`, `read_changes` and `options` are for a stream; `as: table` reads the whole table"
        )
    if payload is not None:
        raise ValueError("`payload` decodes records; a Delta table has columns: remove it")


def _check_joined_files(files: FilesSource, payload: Payload | None) -> None:
    for key in sorted(FOR_STREAMS & files.model_fields_set):
        raise ValueError(f"`{key}` is for a stream; `as: table` reads all files at each batch")
    if files.discovers:
        raise ValueError(
            "`schema_evolution` is for a stream, which adds columns from batch to batch: `as: table` needs "
            "its columns as `schema`, or a `payload`"
        )
    declared = files if payload is None else payload.chosen
    if "on_invalid" in declared.model_fields_set and declared.on_invalid != "fail":
        raise ValueError(
            "`on_invalid: quarantine` is for a stream: a bad record of `as: table` stops the pipeline, "
            "because each batch would put it into the quarantine again. Remove `on_invalid`"
        )
