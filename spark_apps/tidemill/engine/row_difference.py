"""The difference between two sets of rows, computed as one multiset of signed rows.

So a duplicate row counts as often as it occurs.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from tidemill.ledger.difference import Difference
from tidemill.names import TRANSFORM_FAILED
from tidemill.spec.column_names import quoted

# Maximum number of rows of each kind in an answer.
SHOWN_ROWS = 3

# 1 for a row that should exist, -1 for a row that does.
_SIGN = "__sign"


def difference(name: str, wanted: DataFrame, stored: DataFrame | None, version: int | None) -> Difference:
    """Compare two sets of rows in the columns of the wanted rows.

    Args:
        name: Name of the table in the ledger.
        wanted: Rows that should exist.
        stored: Rows that exist; None if there is no table.
        version: Compared version of the table.
    """
    signed = _comparable(wanted).withColumn(_SIGN, F.lit(1))
    if stored is not None:
        there = _comparable(stored.select(*columns_by_name(wanted.columns))).withColumn(_SIGN, F.lit(-1))
        signed = signed.unionByName(there)
    columns = columns_by_name(wanted.columns)
    sums = signed.groupBy(*columns).agg(
        F.sum(_SIGN).alias(_SIGN), F.sum(F.when(F.col(_SIGN) == 1, 1).otherwise(0)).alias("__wanted")
    )
    sums = sums.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        lacking, beyond = F.col(_SIGN) > 0, F.col(_SIGN) < 0
        (told,) = sums.agg(
            F.sum("__wanted").alias("rows"),
            F.sum(F.when(lacking, F.col(_SIGN))).alias("missing"),
            F.sum(F.when(beyond, -F.col(_SIGN))).alias("surplus"),
        ).collect()
        return Difference(
            name=name,
            version=version,
            rows=told["rows"] or 0,
            missing=told["missing"] or 0,
            surplus=told["surplus"] or 0,
            missing_rows=_shown(sums.where(lacking), columns),
            surplus_rows=_shown(sums.where(beyond), columns),
        )
    finally:
        sums.unpersist()


def columns_by_name(names: Iterable[str]) -> list[Column]:
    """Return columns by their exact names, which may contain any characters."""
    return [F.col(quoted(name)) for name in names]


def _shown(rows: DataFrame, columns: list[Column]) -> tuple[str, ...]:
    texts = rows.orderBy(*columns).limit(SHOWN_ROWS).select(F.to_json(F.struct(*columns)).alias("row"))
    return tuple(row["row"] for row in texts.collect())


def _comparable(rows: DataFrame) -> DataFrame:
    """Replace maps by sorted lists of entries, or nested maps by JSON, because Spark cannot compare maps."""
    return rows.select(*(_without_maps(rows, name) for name in rows.columns))


def _without_maps(rows: DataFrame, name: str) -> Column:
    column, kind = F.col(quoted(name)), rows.schema[name].dataType
    if isinstance(kind, MapType) and not _has_map(kind.valueType):
        column = F.array_sort(F.map_entries(column))
    elif _has_map(kind):
        column = F.to_json(column)
    return column.alias(name)


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType)


def comparable_reason() -> Column:
    """Return a failed transform's error class, without the message.

    The message may contain an address or a time.
    """
    reason = F.col("reason")
    failed = reason.startswith(f"{TRANSFORM_FAILED}:")
    return F.when(failed, F.substring_index(reason, ": ", 1)).otherwise(reason).alias("reason")
