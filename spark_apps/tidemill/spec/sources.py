"""Where a pipeline reads: `source: {<kind>: {...}}`."""

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

# A character of a topic's name, not of a class such as \d, and a star.
_LITERAL_AND_STAR = re.compile(r"(?<!\\)([\w-])\*")


class KafkaSource(Strict):
    """Topics of the environment's Kafka brokers."""

    topic: Topic | None = Field(None, description="One topic.")
    topics: list[Topic] | None = Field(None, description="Several topics.", min_length=1)
    pattern: Expression | None = Field(None, description="All topics whose name matches this Java regex.")
    assign: dict[Topic, list[NonNegative]] | None = Field(
        None, description="Certain partitions: {topic: [0, 1]}.", min_length=1
    )
    starting_offsets: CheckedStartingOffsets = Field(
        "earliest",
        description="Where a new checkpoint starts: earliest, latest, a moment (by the broker's time), or "
        "{topic: {partition: offset}} naming every partition (-2 earliest, -1 latest). A checkpoint that "
        "exists goes on from its own.",
    )
    max_offsets_per_batch: Count | None = Field(None, description="Most records in one batch.")
    headers: bool = Field(False, description="Keep record headers as the column kafka_headers.")
    isolation: Isolation = "read_committed"
    options: KafkaSourceOptions = Field({}, description="Spark's and the Kafka client's own options.")

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
        # Spark matches it in Java, and lag is computed in Python: it must mean the same in both.
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error.msg}") from error
        # `topic*`, as in a shell, would match `topi` and `topicc`: no topic that exists, and no error.
        meant = _LITERAL_AND_STAR.sub(r"\1.*", pattern or "")
        if meant != (pattern or ""):
            raise ValueError(
                f"a star repeats the character before it: did you mean {meant}? If not, put it into brackets"
            )
        return pattern

    @property
    def named_topics(self) -> list[str]:
        """Topics that are read by name; empty for a pattern."""
        return [self.topic] if self.topic else list(self.topics or self.assign or [])


class DeltaSource(Strict):
    """A Delta table of this platform, read as a stream of its appends, or of all its changes."""

    table: TableName
    starting_version: NonNegative | None = Field(
        None, description="First table version of a new checkpoint; by default a snapshot, then changes."
    )
    starting_at: Moment | None = Field(
        None,
        description="In the place of starting_version: a new checkpoint starts with the first commit that is "
        "not before this moment. One after the newest commit is an error.",
    )
    changes: Literal["fail", "skip", "skip_deletes"] = Field(
        "fail",
        description="What to do when rows of the table were updated or deleted: stop with the reason, "
        "skip those commits, or skip only those that delete whole files and stop at others.",
    )
    read_changes: bool = Field(
        False,
        description="Read the table's change feed: each row that a commit inserted, updated (before and "
        "after) or deleted, with `_change_type`, `_commit_version` and `_commit_timestamp`. The sink that "
        "writes the table needs `change_feed: true`. A new checkpoint begins with all rows of the table as "
        "inserts, unless it starts elsewhere.",
    )
    max_files_per_batch: Count | None = Field(None, description="Most data files in one batch.")
    options: DeltaSourceOptions = Field({}, description="Delta's own options.")

    @model_validator(mode="after")
    def _starts_at_one_place(self) -> Self:
        if self.starting_version is not None and self.starting_at is not None:
            raise ValueError("a table is read from a version or from a moment: remove one of the two")
        if self.read_changes and self.changes != "fail":
            raise ValueError("`read_changes` reads updates and deletes: remove `changes`, which skips them")
        return self


class RateSource(Strict):
    """Rows made from the clock, for trying out."""

    rows_per_second: Count = Field(1, description="Rows per second.")
    ramp_up: Duration = Field(
        timedelta(0), description="Time in which the rate grows to that, from nothing; whole seconds."
    )


class RatePerBatchSource(Strict):
    """The same number of rows in every batch, for tests and benchmarks."""

    rows_per_batch: Count = Field(1000, description="Rows in each batch.")
    starting_at: Moment = Field(
        datetime(1970, 1, 1, tzinfo=UTC), description="The `timestamp` of all rows of the first batch."
    )
    advance_per_batch: Duration = Field(
        timedelta(seconds=1), description="How much later that of each next batch is."
    )


class SocketSource(Strict):
    """Lines of text from a TCP server, for trying out on one machine: `nc -lk 9999`.

    A socket keeps nothing, so nothing is promised: lines that a stopped or failed driver had read are gone,
    and each start begins anew, counts included. The server must listen before the driver starts.
    """

    host: str = Field("localhost", pattern=HOST_PATTERN, description="Where the server is.")
    port: int = Field(gt=0, le=65535, description="Its port.")
    arrival_time: bool = Field(
        False, description="Keep when a line came as the column `timestamp`, beside its text in `value`."
    )


class Source(OneOf):
    """Exactly one kind of source."""

    kafka: KafkaSource | None = Field(None, description="Topics of the environment's Kafka brokers.")
    eventhubs: EventHubsSource | None = Field(None, description="An event hub through its Kafka endpoint.")
    iothub: IoTHubSource | None = Field(
        None,
        description="An IoT hub through its Event Hubs-compatible endpoint, with columns of its devices.",
    )
    files: FilesSource | None = Field(None, description="Files that arrive in a folder.")
    delta: DeltaSource | None = Field(None, description="A table of this platform.")
    rate: RateSource | None = Field(None, description="Rows made from the clock.")
    rate_per_batch: RatePerBatchSource | None = Field(
        None, description="A fixed number of rows in every batch."
    )
    socket: SocketSource | None = Field(None, description="Lines from a TCP server, for trying out.")

    @property
    def facts(self) -> SourceFacts:
        """What a source of this kind is."""
        return SOURCES[self.kind]

    @property
    def is_kafka(self) -> bool:
        """Whether records come with topic, partition and offset."""
        return self.kind in ("kafka", "eventhubs", "iothub")

    @property
    def event_hub(self) -> EventHubsSource | None:
        """The hub that is read: an event hub, or the one that an IoT hub has for its messages."""
        return self.eventhubs or self.iothub

    @property
    def has_device_columns(self) -> bool:
        """Whether rows get the columns of an IoT hub's messages."""
        return bool(getattr(self.chosen, "device_columns", False))

    @property
    def reads_headers(self) -> bool:
        """Whether records are read with their headers: to be kept, or for what is made of them."""
        return self.has_device_columns or bool(getattr(self.chosen, "headers", False))

    def topics_shared(self, other: Source) -> list[str]:
        """Topics that this source reads by name and the other one reads as well."""
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
        """What a Kafka, Event Hubs or IoT Hub source reads: names, or a pattern of names."""
        if self.event_hub is not None:
            return [self.event_hub.hub]
        if self.kafka is None:
            return []
        if self.kafka.pattern is not None:
            return re.compile(self.kafka.pattern)
        return self.kafka.named_topics
