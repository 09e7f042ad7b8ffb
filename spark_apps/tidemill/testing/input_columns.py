"""Columns of the tables for a test's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidemill.spec.sources import DeltaSource
from tidemill.testing.stand_ins import RecordsTable

if TYPE_CHECKING:
    import pyarrow as pa


def made_up_schema(kind: str, *, times: bool = True) -> pa.Schema:
    """Return the columns of the sources `rate`, `rate_per_batch` and `socket`."""
    import pyarrow as pa

    moment = [("timestamp", pa.timestamp("us", "UTC"))] if times else []
    value = pa.field("value", pa.string() if kind == "socket" else pa.int64())
    return pa.schema([value, *moment] if kind == "socket" else [*moment, value])


def ddl_schema(ddl: str) -> pa.Schema:
    """Convert columns from Spark DDL to Arrow."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    return to_arrow_schema(cast("StructType", StructType.fromDDL(ddl)), timezone="UTC")


def records_schema(source: DeltaSource) -> pa.Schema:
    """Return the columns of the table that replaces a topic."""
    import pyarrow as pa

    has_headers = isinstance(source, RecordsTable) and (source.headers or source.device_columns)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.schema(
        [
            ("kafka_key", pa.binary()),
            ("kafka_value", pa.binary()),
            ("kafka_topic", pa.string()),
            ("kafka_partition", pa.int32()),
            ("kafka_offset", pa.int64()),
            ("kafka_timestamp", pa.timestamp("us", "UTC")),
            *([("kafka_headers", headers)] if has_headers else []),
        ]
    )
