"""Apply a batch of changes to a table with one MERGE whose result does not depend on the order of changes.

scd1 keeps the greatest change of each key, so the order does not matter. scd2 keeps every change and puts it
between its neighbours: a row's interval ends where the next one begins. So a late change ends the interval
that it falls into, and its own interval ends where that one ended.

Changes that leave values unchanged, or that empty the table, depend on other changes. For them, the table's
rows are read first, and the affected rows are computed again from both.
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
    JSON_OPTIONS,
    PASSING,
    SEQUENCE,
    VALID_FROM,
    VALID_TO,
    newest,
    tie_order,
    unchanged_columns,
)
from tidemill.spec.change_feed import SET_AT
from tidemill.spec.column_names import quoted
from tidemill.spec.delta_sink import DeltaSink

# Helper columns: is the row from the batch, end of its interval, the last truncation, all truncations, is the
# row to be deleted, and values with the sequence that set them.
_IS_NEW, _END = f"{PASSING}is_new", f"{PASSING}end"
_TRUNCATED, _TRUNCATIONS, _GONE = f"{PASSING}truncated", f"{PASSING}truncations", f"{PASSING}gone"
_LAST = f"{PASSING}last_"


def newest_changes(rows: DataFrame, sink: DeltaSink) -> DataFrame:
    """Return the greatest change of each key in the batch, for an scd1 table."""
    return newest(rows, sink, sink.key)


def merge_newer(merge: DeltaMergeBuilder, columns: list[str], sink: DeltaSink) -> DeltaMergeBuilder:
    """Add the clauses of an scd1 table: take changes that are greater than the table's row."""
    new, old = ([F.col(f"{side}.{SEQUENCE}"), *tie_order(columns, sink, f"{side}.")] for side in "st")
    return merge.whenMatchedUpdateAll(_greater(new, old)).whenNotMatchedInsertAll()


def merge_resolved(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
    """Add the clauses of an scd1 table whose rows `resolved_changes` has computed."""
    gone = F.col(f"s.{_GONE}")
    return merge.whenMatchedDelete(gone).whenMatchedUpdateAll().whenNotMatchedInsertAll(~gone)


def forget_deletes(merge: DeltaMergeBuilder, sink: DeltaSink) -> DeltaMergeBuilder:
    """Add the clause of an scd1 table that forgets deletes of the declared age."""
    keep = None if sink.cdc is None else sink.cdc.forget_deletes_after
    if not isinstance(keep, timedelta):
        return merge
    forgotten = f"t.{DELETED_AT} < current_timestamp() - make_dt_interval(0, 0, 0, {keep.total_seconds()})"
    return merge.whenNotMatchedBySourceDelete(forgotten)


def resolved_changes(rows: DataFrame, path: str, sink: DeltaSink) -> DataFrame:
    """Return the rows of an scd1 table that a batch adds, changes or deletes, as they are after it.

    1. A column that a change leaves unchanged gets the value of the greatest change that set it.
    2. The greatest change of a key is its row.
    3. Everything up to the last truncation is removed: a row is deleted, a value becomes null. The truncation
       itself is the row without a key.
    """
    both = _with_held(rows, path, sink)
    # 1.
    by_key = Window.partitionBy(*map(quoted, sink.key))
    names = list(unchanged_columns(rows.columns, sink))
    for place, name in enumerate(names):
        value, set_at = F.col(quoted(name)), F.col(SET_AT)[name]
        order = F.when(set_at.isNotNull(), F.struct(set_at, _json([value])))
        last = F.max_by(F.struct(value.alias("value"), set_at.alias("at")), order).over(by_key)
        both = both.withColumn(f"{_LAST}{place}", last)
    # 2.
    truncations = both.where(_is_truncation(sink)).agg(F.max(SEQUENCE).alias(_TRUNCATED))
    events = newest(both, sink, sink.key, F.col(_IS_NEW)).crossJoin(F.broadcast(truncations))
    # 3.
    truncated = F.col(_TRUNCATED)
    is_over = [_is_true(F.col(f"{_LAST}{place}")["at"] <= truncated) for place in range(len(names))]
    gone = ~_is_truncation(sink) & _is_true(F.col(SEQUENCE) <= truncated)
    values = _with_values(rows.columns, names, is_over)
    is_changed = F.col(_IS_NEW) | gone | _differ(values, names)
    return events.where(is_changed).select(*values.values(), gone.alias(_GONE))


def changed_history(rows: DataFrame, path: str, sink: DeltaSink) -> DataFrame:
    """Return rows of an scd2 table that a batch adds or changes; one for each key and sequence.

    1. Of several changes with the same key and sequence, one stays; of two equal ones, the table's own stays.
    2. An interval ends where the next change of the key begins, or the next truncation.
    3. A column that a change leaves unchanged gets the value of the last earlier change that set it, unless a
       truncation is between the two.
    """
    both = _with_held(rows, path, sink)
    names = list(unchanged_columns(rows.columns, sink))
    is_new, start, is_delete = F.col(_IS_NEW), F.col(VALID_FROM), F.col(DELETED_AT).isNotNull()
    # 1.
    set_values = (F.when(_is_set(name), _json([F.col(quoted(name))])) for name in names)
    events = newest(both, sink, [*sink.key, VALID_FROM], *map(F.desc, set_values), is_new)
    # 2.
    events = _with_truncations(events, both, sink)
    timeline = Window.partitionBy(*map(quoted, sink.key)).orderBy(VALID_FROM)
    emptied = F.array_min(F.filter(_TRUNCATIONS, lambda at: at >= start))
    end = F.when(is_delete, start).otherwise(F.least(F.lead(VALID_FROM).over(timeline), emptied))
    events = events.withColumn(_END, end)
    # 3.
    before = timeline.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    for place, name in enumerate(names):
        value = F.struct(F.col(quoted(name)).alias("value"), start.alias("at"))
        last = F.last(F.when(_is_set(name), value), ignorenulls=True).over(before)
        events = events.withColumn(f"{_LAST}{place}", last)
    is_over = [_is_between(F.col(f"{_LAST}{place}")["at"], start) for place in range(len(names))]
    values = _with_values(rows.columns, names, is_over)
    is_changed = is_new | ~F.col(_END).eqNullSafe(F.col(VALID_TO)) | _differ(values, names)
    values[VALID_TO] = F.col(_END).alias(VALID_TO)
    values[IS_CURRENT] = (~is_delete & F.col(_END).isNull()).alias(IS_CURRENT)
    return events.where(is_changed).select(*values.values())


def _with_held(rows: DataFrame, path: str, sink: DeltaSink) -> DataFrame:
    """Return the rows of a batch, and the table's rows that they affect or that affect them."""
    table = rows.sparkSession.read.format("delta").load(path)
    held = table.alias("t").join(rows.alias("s"), _same(sink.key), "left_semi")
    if sink.cdc is not None and sink.cdc.truncate is not None:
        is_truncation = _is_truncation(sink)
        empties = not rows.where(is_truncation).isEmpty()
        held = table if empties else held.unionByName(table.where(is_truncation))
    return held.withColumn(_IS_NEW, F.lit(False)).unionByName(rows.withColumn(_IS_NEW, F.lit(True)))


def _with_values(columns: list[str], names: list[str], is_over: list[Column]) -> dict[str, Column]:
    """Return the columns of a table by name; columns that changes leave unchanged have their last values.

    Args:
        columns: Columns of the table.
        names: Columns that changes may leave unchanged.
        is_over: For each of `names`, true if a truncation came after the value.
    """
    values: dict[str, Column] = {}
    set_at = []
    for place, (name, over) in enumerate(zip(names, is_over, strict=True)):
        last = F.col(f"{_LAST}{place}")
        values[name] = F.when(~over, last["value"])
        set_at.append(F.when(~over, last["at"]).alias(name))
    if names:
        values[SET_AT] = F.struct(*set_at)
    return {name: values.get(name, F.col(quoted(name))).alias(name) for name in columns}


def _differ(values: dict[str, Column], names: list[str]) -> Column:
    """Return true for a row whose unchanged columns differ from its computed values."""
    if not names:
        return F.lit(False)
    kept = [*names, SET_AT]
    return _json([values[name] for name in kept]) != _json([F.col(quoted(name)) for name in kept])


def _with_truncations(events: DataFrame, both: DataFrame, sink: DeltaSink) -> DataFrame:
    """Return events with the sequences of all truncations in a column."""
    start = F.col(VALID_FROM)
    if sink.cdc is None or sink.cdc.truncate is None:
        return events.withColumn(_TRUNCATIONS, F.filter(F.array(start), lambda _: F.lit(False)))
    found = both.where(_is_truncation(sink)).agg(F.collect_set(start).alias(_TRUNCATIONS))
    return events.crossJoin(F.broadcast(found))


def _is_set(name: str) -> Column:
    """Return true for a change that sets a column which other changes leave unchanged."""
    return F.col(SET_AT)[name].eqNullSafe(F.col(VALID_FROM))


def _is_between(set_at: Column, start: Column) -> Column:
    """Return true if the table was emptied after a value was set, and not after its row began."""
    found = F.exists(_TRUNCATIONS, lambda at: (at >= set_at) & (at <= start))
    return _is_true((set_at < start) & found)


def _is_truncation(sink: DeltaSink) -> Column:
    """Return true for a truncation row: a delete without a key."""
    keys = (F.col(quoted(name)).isNull() for name in sink.key)
    return reduce(and_, keys) & F.col(DELETED_AT).isNotNull()


def _is_true(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))


def _json(columns: list[Column]) -> Column:
    return F.to_json(F.struct(*columns), JSON_OPTIONS)


def _same(key: list[str]) -> Column:
    return reduce(and_, (F.col(quoted(name, "t.")).eqNullSafe(F.col(quoted(name, "s."))) for name in key))


def _greater(new: list[Column], old: list[Column]) -> Column:
    """Return true if the first differing value is greater; later values only break a tie."""
    greater = F.lit(False)
    for a, b in reversed(list(zip(new, old, strict=True))):
        greater = (a > b) | ((a == b) & greater)
    return greater
