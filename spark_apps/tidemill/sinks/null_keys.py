"""Refuse rows without a value in a key column, because all of them would become one row."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemill.errors import DataError
from tidemill.spec.column_names import quoted
from tidemill.spec.delta_sink import DeltaSink


def null_key_counts(key: Sequence[str], rows: Column) -> list[Column]:
    """Return aggregates that count the rows without a value, by column of the key.

    Args:
        key: Columns of the key.
        rows: Weight of each row.
    """
    return [
        F.sum(F.when(F.col(quoted(name)).isNull(), rows).otherwise(0)).alias(f"null_{name}") for name in key
    ]


def refuse_null_keys(counts: Sequence[int | None], path: str, sink: DeltaSink) -> None:
    """Raise an error for rows without a key.

    Args:
        counts: Rows without a value, by column of the key; None if there are no rows.
        path: The table.
        sink: Its declaration.

    Raises:
        DataError: TIDE-SINK-022.
    """
    without = {name: count for name, count in zip(sink.key, counts, strict=True) if count}
    if not without:
        return
    present = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in without)
    truncation = "" if sink.cdc is None else "; declare a change that empties the table as `cdc.truncate`"
    raise DataError(
        "TIDE-SINK-022",
        "Rows have no value in a column of the table's key. Nothing was written.",
        facts={"table": path, "key": ", ".join(sink.key), "rows_without": without},
        fix=f"give them a key in the transform, or leave them out by `where: {present}`{truncation}; to set "
        "them aside, `on_invalid: quarantine` of the payload or files, and of a topic's rows the columns "
        "kafka_topic, kafka_partition and kafka_offset",
    )


def check_null_keys(rows: DataFrame, path: str, sink: DeltaSink) -> None:
    """Raise an error for rows without a key; reads all of them.

    Raises:
        DataError: TIDE-SINK-022.
    """
    (found,) = rows.agg(*null_key_counts(sink.key, F.lit(1))).collect()
    refuse_null_keys(list(found), path, sink)
