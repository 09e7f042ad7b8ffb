"""Applying a batch of changes to a table: one MERGE, whose outcome does not depend on their order.

scd1 keeps for each key the greatest change there ever was, so it does not matter which comes first. scd2
keeps each change, and puts it between its neighbours: a row's interval ends where the next one's begins. So a
late change ends the interval that it falls into, and its own ends where that one did.
"""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from operator import and_

from delta.tables import DeltaMergeBuilder
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemill.sinks.change_rows import (
    DELETED_AT,
    IS_CURRENT,
    PASSING,
    SEQUENCE,
    VALID_FROM,
    VALID_TO,
    newest,
    tie_order,
)
from tidemill.spec.column_names import quoted
from tidemill.spec.sinks import DeltaSink

_IS_NEW, _END = f"{PASSING}is_new", f"{PASSING}end"


def newest_changes(rows: DataFrame, sink: DeltaSink) -> DataFrame:
    """The greatest change of each key in the batch, for an scd1 table."""
    return newest(rows, sink, sink.key)


def merge_newer(merge: DeltaMergeBuilder, columns: list[str], sink: DeltaSink) -> DeltaMergeBuilder:
    """The clauses of an scd1 table: take what is greater than the row that the table has."""
    new, old = ([F.col(f"{side}.{SEQUENCE}"), *tie_order(columns, sink, f"{side}.")] for side in "st")
    merge = merge.whenMatchedUpdateAll(_greater(new, old)).whenNotMatchedInsertAll()
    keep = None if sink.cdc is None else sink.cdc.forget_deletes_after
    if not isinstance(keep, timedelta):
        return merge
    forgotten = f"t.{DELETED_AT} < current_timestamp() - make_dt_interval(0, 0, 0, {keep.total_seconds()})"
    return merge.whenNotMatchedBySourceDelete(forgotten)


def changed_history(rows: DataFrame, path: str, sink: DeltaSink) -> DataFrame:
    """Rows of an scd2 table that a batch adds or whose interval it changes; one for each key and sequence."""
    table = rows.sparkSession.read.format("delta").load(path)
    held = table.alias("t").join(rows.alias("s"), _same(sink.key), "left_semi")
    both = held.withColumn(_IS_NEW, F.lit(False)).unionByName(rows.withColumn(_IS_NEW, F.lit(True)))
    # Of two equal ones the table's own stays.
    is_new = F.col(_IS_NEW)
    events = newest(both, sink, [*sink.key, VALID_FROM], is_new)
    timeline = Window.partitionBy(*map(quoted, sink.key)).orderBy(VALID_FROM)
    is_delete = F.col(DELETED_AT).isNotNull()
    end = F.when(is_delete, F.col(VALID_FROM)).otherwise(F.lead(VALID_FROM).over(timeline))
    return (
        events.withColumn(_END, end)
        .where(is_new | ~F.col(_END).eqNullSafe(F.col(VALID_TO)))
        .withColumn(VALID_TO, F.col(_END))
        .withColumn(IS_CURRENT, ~is_delete & F.col(_END).isNull())
        .select(*map(quoted, table.columns))
    )


def _same(key: list[str]) -> Column:
    return reduce(and_, (F.col(quoted(name, "t.")).eqNullSafe(F.col(quoted(name, "s."))) for name in key))


def _greater(new: list[Column], old: list[Column]) -> Column:
    """Whether the first values that differ are greater; later ones are looked at only for a tie."""
    greater = F.lit(False)
    for a, b in reversed(list(zip(new, old, strict=True))):
        greater = (a > b) | ((a == b) & greater)
    return greater
