"""Put a test's input where the pipeline reads it: a whole batch at once, in order.

A feed converts rows or payloads to items, and puts items. Another feed of the same pipeline can put the same
items, so the parity kit can give several runs the same input.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from tidemill.errors import UsageError
from tidemill.spec.ddl import parse_columns
from tidemill.testing.broker import Broker, Record
from tidemill.testing.input_columns import records_schema
from tidemill.testing.record_encoder import RecordEncoder, refused
from tidemill.testing.rows import Row, as_json, as_table, as_text, check_columns, misfit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidemill.spec.project import Pipeline

Payload = bytes | None | Record


class Feed(Protocol):
    """The input of one source of a pipeline."""

    def rows(self, rows: Sequence[Row]) -> list[Any]:
        """Convert rows to items; refuse a row that does not fit (TIDE-TEST-003)."""

    def payloads(self, payloads: Iterable[Payload]) -> list[Any]:
        """Convert payloads to items, unchanged."""

    def put(self, items: Sequence[Any]) -> None:
        """Put items where the next batch reads them."""


class RecordsFeed:
    """Records of a topic, in a table that replaces it.

    Args:
        stream: A pipeline with one stream, with the table as its source.
        topic: Value of `kafka_topic`.
    """

    def __init__(self, stream: Pipeline, topic: str) -> None:
        self._encoder = RecordEncoder(stream)
        self._topic = topic
        source = stream.spec.source.delta
        if source is None:
            raise refused(stream, "records", "read a topic")
        self._schema = records_schema(source)
        self._table = TableFeed(stream.layout.table(source.table), self._schema)
        # Continue after the records of another run of the test, so that offsets are unique.
        self._offsets = itertools.count(self._table.count())

    def rows(self, rows: Sequence[Row]) -> list[Any]:
        """Convert rows to records with the offsets of a topic with one partition."""
        return self.payloads(self._encoder.records(rows))

    def payloads(self, payloads: Iterable[Payload]) -> list[Any]:
        """Convert payloads to records with increasing offsets; a record may name another partition."""
        return [
            self._row(payload if isinstance(payload, Record) else Record(payload)) for payload in payloads
        ]

    def put(self, items: Sequence[Any]) -> None:
        """Append items to the table."""
        self._table.put([as_table(items, self._schema)])

    def _row(self, record: Record) -> dict[str, Any]:
        headers = [{"key": name, "value": value} for name, value in record.headers] or None
        return {
            "kafka_key": record.key,
            "kafka_value": record.value,
            "kafka_topic": self._topic,
            "kafka_partition": max(record.partition, 0),
            "kafka_offset": next(self._offsets),
            "kafka_timestamp": datetime.now(UTC),
            **({"kafka_headers": headers} if "kafka_headers" in self._schema.names else {}),
        }


class TopicFeed:
    """Records that are sent to a real topic.

    Args:
        stream: A pipeline with one stream.
        broker: Broker of the topic.
        topic: The test's topic.
    """

    def __init__(self, stream: Pipeline, broker: Broker, topic: str) -> None:
        self._encoder = RecordEncoder(stream)
        self._broker = broker
        self._topic = topic

    def rows(self, rows: Sequence[Row]) -> list[Any]:
        """Convert each row to one record."""
        return self._encoder.records(rows)

    def payloads(self, payloads: Iterable[Payload]) -> list[Any]:
        """Return the payloads unchanged."""
        return list(payloads)

    def put(self, items: Sequence[Any]) -> None:
        """Send items, and wait until the broker has all of them."""
        self._broker.send(self._topic, items)


class TableFeed:
    """Rows of a Delta table.

    Args:
        path: Path of the table.
        schema: Its columns, if known; else those of the existing table, or of the first rows.
        change_feed: True if its changes are read.
    """

    def __init__(self, path: str, schema: pa.Schema | None = None, *, change_feed: bool = False) -> None:
        self._path = path
        self._options = {"delta.enableChangeDataFeed": "true"} if change_feed else None
        if schema is not None:
            self.create(schema)

    def create(self, schema: pa.Schema) -> None:
        """Create the table without rows, unless it exists."""
        from deltalake import DeltaTable

        if self._schema() is None:
            DeltaTable.create(self._path, schema, configuration=self._options)

    def count(self) -> int:
        """Return the number of its rows."""
        from tidemill.ledger.read import open_table

        table = open_table(self._path)
        return 0 if table is None else int(table.count())

    def rows(self, rows: Sequence[Row]) -> list[Any]:
        """Convert rows to tables of one row, with the common types of all rows."""
        table = as_table(rows, self._schema())
        return [table.slice(place, 1) for place in range(table.num_rows)]

    def payloads(self, payloads: Iterable[Payload]) -> list[Any]:  # noqa: ARG002  # a table has none
        """Raise an error, because a table has no payloads."""
        raise UsageError(
            "TIDE-TEST-004",
            "A table has rows, not payloads.",
            facts={"table": self._path},
            fix="hand in rows by add_rows",
        )

    def put(self, items: Sequence[Any]) -> None:
        """Append items in one commit."""
        import pyarrow as pa
        from deltalake import write_deltalake

        # An existing table keeps its properties.
        options = self._options if self._schema() is None else None
        rows = pa.concat_tables(items, promote_options="permissive")
        write_deltalake(self._path, rows, mode="append", configuration=options)

    def _schema(self) -> pa.Schema | None:
        import pyarrow as pa

        from tidemill.ledger.read import open_table

        table = open_table(self._path)
        return None if table is None else pa.schema(table.schema().to_arrow())


class FilesFeed:
    """Files in the folder that the pipeline reads: one for each batch.

    Args:
        stream: A pipeline with one stream.
        spark: Session that writes formats without lines.
    """

    def __init__(self, stream: Pipeline, spark: SparkSession) -> None:
        self._stream = stream
        self._spark = spark
        self._source = stream.spec.source.chosen
        self._folder = Path(stream.layout.folder(self._source.path))
        self._folder.mkdir(parents=True, exist_ok=True)

    def rows(self, rows: Sequence[Row]) -> list[Any]:
        """Convert rows to lines if the format has lines, or else check that they fit its columns."""
        if self._stream.spec.payload is not None:
            return [record.value for record in RecordEncoder(self._stream).records(rows)]
        if self._stream.spec.file_format == "text":
            check_columns(rows, ["value"])
            return as_text(rows)
        if not self._source.discovers:
            check_columns(rows, [column.name for column in parse_columns(self._source.schema_)])
        if self._stream.spec.file_format == "json":
            return as_json(rows)
        self._frame(rows)
        return list(rows)

    def payloads(self, payloads: Iterable[Payload]) -> list[Any]:
        """Return the lines unchanged."""
        if self._stream.spec.file_format not in ("json", "csv", "text"):
            raise refused(
                self._stream, f"lines of {self._stream.spec.file_format} files", "hand in rows by add_rows"
            )
        lines = [payload.value if isinstance(payload, Record) else payload for payload in payloads]
        if None in lines:
            raise refused(self._stream, "a line that is None", "leave it out: only a topic has such")
        return lines

    def put(self, items: Sequence[Any]) -> None:
        """Write items to a new file, which appears as a whole or not at all."""
        lines = [item for item in items if isinstance(item, bytes)]
        rows = [item for item in items if not isinstance(item, bytes)]
        if lines:
            hidden = self._folder / ".lines"
            header = [self._header()] if self._stream.spec.payload and self._source.is_set("header") else []
            hidden.write_bytes(b"".join(line + b"\n" for line in [*header, *lines]))
            self._show(hidden)
        if rows:
            written = self._folder.with_name(f".{self._folder.name}.written")
            frame = self._frame(rows).coalesce(1).write.mode("overwrite")
            # Spark escapes a quote with a backslash, while RFC 4180 doubles it.
            options = {"escape": '"', **self._source.options}
            frame.format(self._stream.spec.file_format).options(**options).save(str(written))
            self._show(next(written.glob("part-*")))

    def _header(self) -> bytes:
        """Return the header of a CSV file whose columns a payload declares."""
        from tidemill.payload.decoders import decoder_of

        payload = self._stream.spec.payload
        if payload is None or payload.csv is None:
            return b""
        columns = decoder_of(payload, self._stream.environment.project.schemas).columns
        return payload.csv.separator.join(columns.names).encode()

    def _frame(self, rows: Sequence[Row]) -> Any:
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType

        schema = cast("StructType", StructType.fromDDL(self._source.schema_))
        try:
            return self._spark.createDataFrame([tuple(map(row.get, schema.names)) for row in rows], schema)
        except PySparkException as error:
            misfit(None, str(error).partition("\n")[0], "correct the value; times are datetime objects")

    def _show(self, file: Path) -> None:
        # Continue after the files of another run of the test, because Spark reads no name twice.
        number = sum(1 for other in self._folder.iterdir() if not other.name.startswith("."))
        file.rename(self._folder / f"{number}.{self._stream.spec.file_format}")
