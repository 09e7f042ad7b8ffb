"""One of several sources: `sources: {<name>: {<kind>: {...}, as: stream | table, …}}`."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tidemill.spec.capabilities import NOT_A_TABLE
from tidemill.spec.event_time import EventTime
from tidemill.spec.payload import Payload
from tidemill.spec.refusal import RefusedError
from tidemill.spec.sources import Source


class NamedSource(Source):
    """One of several sources, with its payload and event time."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})
    beside: ClassVar[frozenset[str]] = frozenset({"as_", "payload", "event_time"})

    as_: Literal["stream", "table"] = Field(
        "stream",
        alias="as",
        description="stream: each record is read once. table: each batch reads the newest version of the "
        "whole Delta table, for joins.",
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
        if self.delta is None or not self.facts.as_table:
            raise RefusedError(NOT_A_TABLE, source=self.kind)
        for key in ("starting_version", "starting_at", "max_files_per_batch"):
            if getattr(self.delta, key) is not None:
                raise ValueError(f"`{key}` is for a stream; `as: table` reads the whole table")
        if self.delta.options or self.delta.changes != "fail" or self.delta.read_changes:
            raise ValueError(
                "`changes`, `read_changes` and `options` are for a stream; `as: table` reads the whole table"
            )
        if self.payload is not None or self.event_time is not None:
            raise ValueError(
                "`payload` and `event_time` are for a stream; `as: table` has columns, and no late rows"
            )
        return self
