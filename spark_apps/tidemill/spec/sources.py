"""The source of a pipeline: `source: {<kind>: {...}}`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from tidemill.spec.capabilities import SOURCES, SourceFacts
from tidemill.spec.eventhubs_source import EventHubsSource as EventHubsSource
from tidemill.spec.files_source import FilesSource as FilesSource
from tidemill.spec.iothub_source import IoTHubSource as IoTHubSource
from tidemill.spec.isolation import Isolation
from tidemill.spec.options import DeltaSourceOptions, KafkaSourceOptions
from tidemill.spec.starting_offsets import CheckedStartingOffsets, Moment
from tidemill.spec.starting_offsets import StartingOffsets as StartingOffsets
from tidemill.spec.strict import OneOf, Strict
from tidemill.spec.text import (
    HOST_PATTERN,
    Expression,
    TableName,
    Topic,
)
from tidemill.spec.units import Count, Duration, NonNegative

# A literal character of a topic's name (not of a class such as \d) followed by a star.
_LITERAL_AND_STAR = re.compile(r"(?<!\\)([\w-])\*")


class KafkaSource(Strict):
    """Topics of the environment's Kafka brokers."""

    topic: Topic | None = Field(None, description="One topic.")
    topics: list[Topic] | None = Field(None, description="Several topics.", min_length=1)
    pattern: Expression | None = Field(None, description="All topics whose name matches this Java regex.")
    assign: dict[Topic, list[NonNegative]] | None = Field(
        None, description="Specific partitions: {topic: [0, 1]}.", min_length=1
    )
    starting_offsets: CheckedStartingOffsets = Field(
        "earliest",
        description="Start position of a new checkpoint: earliest, latest, a timestamp (in broker time), or "
        "{topic: {partition: offset}} with every partition (-2 earliest, -1 latest). An existing checkpoint "
        "continues at its own offsets.",
    )
    max_offsets_per_batch: Count | None = Field(None, description="Maximum number of records in one batch.")
    headers: bool = Field(False, description="Keep record headers in the column kafka_headers.")
    isolation: Isolation = "read_committed"
    options: KafkaSourceOptions = Field({}, description="Options of Spark and of the Kafka client.")

    @model_validator(mode="after")
    def _one_choice_of_topics(self) -> Self:
        given = [n for n in ("topic", "topics", "pattern", "assign") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError(
                "expected exactly one of topic, topics, pattern, assign; "
                f"found {' and '.join(given) or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _starts_where_it_reads(self) -> Self:
        named = self.named_topics
        if named and isinstance(self.starting_offsets, dict) and set(self.starting_offsets) != set(named):
            raise ValueError(
                f"starting_offsets must name exactly the topics that are read: {', '.join(named)}"
            )
        return self

    @field_validator("pattern")
    @classmethod
    def _pattern_is_a_regex(cls, pattern: str | None) -> str | None:
        # Spark matches it in Java, and Tidemill computes the lag in Python. Both must match the same topics.
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error.msg}") from error
        # `topic*`, as in a shell, would match `topi` and `topicc`, so no existing topic, without an error.
        meant = _LITERAL_AND_STAR.sub(r"\1.*", pattern or "")
        if meant != (pattern or ""):
            raise ValueError(
                f"a star repeats the character before it: did you mean {meant}? If not, put it into brackets"
            )
        return pattern

    @property
    def named_topics(self) -> list[str]:
        """Return the topics that are read by name; empty for a pattern."""
        return [self.topic] if self.topic else list(self.topics or self.assign or [])


class DeltaSource(Strict):
    """A Delta table of this storage root, read as a stream of its appends or of all its changes."""

    table: TableName
    starting_version: NonNegative | None = Field(
        None,
        description="First table version that a new checkpoint reads. Default: a snapshot of the table, then "
        "the later commits.",
    )
    starting_at: Moment | None = Field(
        None,
        description="Instead of starting_version: a new checkpoint starts with the first commit at or after "
        "this time. A time after the newest commit is an error.",
    )
    changes: Literal["fail", "skip", "skip_deletes"] = Field(
        "fail",
        description="Handling of commits that update or delete rows of the table. fail: stop with the "
        "reason. skip: skip these commits. skip_deletes: skip those that delete whole files, and stop at "
        "others.",
    )
    read_changes: bool = Field(
        False,
        description="If true, read the table's change data feed: each row that a commit inserted, updated "
        "(before and after) or deleted, with `_change_type`, `_commit_version` and `_commit_timestamp`. The "
        "sink that writes the table needs `change_feed: true`. Unless a start is set, a new checkpoint "
        "begins with all rows of the table as inserts.",
    )
    max_files_per_batch: Count | None = Field(None, description="Maximum number of data files in one batch.")
    options: DeltaSourceOptions = Field({}, description="Delta's read options.")

    @model_validator(mode="after")
    def _starts_at_one_place(self) -> Self:
        if self.starting_version is not None and self.starting_at is not None:
            raise ValueError("a table is read from a version or from a moment: remove one of the two")
        if self.read_changes and self.changes != "fail":
            raise ValueError("`read_changes` reads updates and deletes: remove `changes`, which skips them")
        return self


class RateSource(Strict):
    """Rows generated from the clock, for experiments."""

    rows_per_second: Count = Field(1, description="Rows per second.")
    ramp_up: Duration = Field(
        timedelta(0), description="Time in which the rate grows from 0 to that value, in whole seconds."
    )


class RatePerBatchSource(Strict):
    """The same number of rows in every batch, for tests and benchmarks."""

    rows_per_batch: Count = Field(1000, description="Number of rows in each batch.")
    starting_at: Moment = Field(
        datetime(1970, 1, 1, tzinfo=UTC), description="The `timestamp` of all rows in the first batch."
    )
    advance_per_batch: Duration = Field(
        timedelta(seconds=1), description="Difference of `timestamp` between two batches."
    )


class SocketSource(Strict):
    """Lines of text from a TCP server, for experiments on one machine: `nc -lk 9999`.

    There is no delivery guarantee, because a socket keeps nothing. Lines that a stopped or failed driver has
    read are lost, and each start begins from scratch, including counts. The server must listen before the
    driver starts.
    """

    host: str = Field("localhost", pattern=HOST_PATTERN, description="Host of the server.")
    port: int = Field(gt=0, le=65535, description="Port of the server.")
    arrival_time: bool = Field(
        False, description="If true, the column `timestamp` has the arrival time of each line."
    )


class Source(OneOf):
    """Exactly one kind of source."""

    kafka: KafkaSource | None = Field(None, description="Topics of the environment's Kafka brokers.")
    eventhubs: EventHubsSource | None = Field(None, description="An event hub through its Kafka endpoint.")
    iothub: IoTHubSource | None = Field(
        None,
        description="An IoT hub through its Event Hubs-compatible endpoint, with device columns.",
    )
    files: FilesSource | None = Field(None, description="Files that arrive in a folder.")
    delta: DeltaSource | None = Field(None, description="A Delta table of this storage root.")
    rate: RateSource | None = Field(None, description="Rows generated from the clock.")
    rate_per_batch: RatePerBatchSource | None = Field(
        None, description="A fixed number of rows in every batch."
    )
    socket: SocketSource | None = Field(None, description="Lines from a TCP server, for experiments.")

    @property
    def facts(self) -> SourceFacts:
        """Return the properties of this kind of source."""
        return SOURCES[self.kind]

    @property
    def is_kafka(self) -> bool:
        """Return True if records have a topic, a partition and an offset."""
        return self.kind in ("kafka", "eventhubs", "iothub")

    @property
    def event_hub(self) -> EventHubsSource | None:
        """Return the event hub, or the one behind an IoT hub's messages; None for other sources."""
        return self.eventhubs or self.iothub

    @property
    def has_device_columns(self) -> bool:
        """Return True if rows get the columns of an IoT hub's messages."""
        return bool(getattr(self.chosen, "device_columns", False))

    @property
    def reads_headers(self) -> bool:
        """Return True if records are read with their headers, to keep them or to derive columns."""
        return self.has_device_columns or bool(getattr(self.chosen, "headers", False))

    def topics_shared(self, other: Source) -> list[str]:
        """Return the topics that this source reads by name and the other one reads as well."""
        if self.event_hub is not None and other.event_hub is not None:
            mine, theirs = self.event_hub, other.event_hub
            return [mine.hub] if (mine.namespace, mine.hub) == (theirs.namespace, theirs.hub) else []
        if self.kafka is None or other.kafka is None:
            return []
        read = other.topics_or_pattern
        matches = read.fullmatch if isinstance(read, re.Pattern) else frozenset(read).__contains__
        return [topic for topic in self.kafka.named_topics if matches(topic)]

    @property
    def topics_or_pattern(self) -> list[str] | re.Pattern[str]:
        """Return the topics of a Kafka, Event Hubs or IoT Hub source by name or as a pattern."""
        if self.event_hub is not None:
            return [self.event_hub.hub]
        if self.kafka is None:
            return []
        if self.kafka.pattern is not None:
            return re.compile(self.kafka.pattern)
        return self.kafka.named_topics
