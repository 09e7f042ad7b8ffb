"""Convert changes of a feed to rows of their table.

| table | meaning of a row | columns in addition to the kept ones |
|---|---|---|
| scd1 | the newest change of its key | `_sequence`, `_deleted_at` |
| scd2 | one change | `valid_from`, `valid_to` (null of the newest), `is_current`, `_deleted_at` |

A delete is also a row: it has the key, and nulls. Without it, an older change that arrives later would
restore the deleted row. Readers of scd1 leave out rows with `_deleted_at`. In scd2 the interval of a delete
is empty, so no time falls into it. A truncation is a delete without a key. With `unchanged`, both tables have
the column `_set_at`, a struct with the sequence of the change that set the value of each such column.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemill.errors import DataError, SpecError
from tidemill.names import CHANGE_FEED_COLUMNS
from tidemill.sinks.null_keys import null_key_counts, refuse_null_keys
from tidemill.spec.change_feed import OWN_COLUMNS, SET_AT
from tidemill.spec.column_names import column_named, quoted
from tidemill.spec.delta_sink import DeltaSink

SEQUENCE, DELETED_AT = OWN_COLUMNS["scd1"]
VALID_FROM, VALID_TO, IS_CURRENT, _ = OWN_COLUMNS["scd2"]

_CHANGE_TYPE, _COMMIT_VERSION, _ = CHANGE_FEED_COLUMNS

# Prefix of temporary columns, which no table keeps.
PASSING = "_tidemill_"
_PLACE = f"{PASSING}place"

# Microseconds, as tables keep them; Spark's default for JSON has milliseconds.
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def table_schema(changes: pa.Schema, sink: DeltaSink) -> pa.Schema:
    """Return the columns of the table.

    Raises:
        SpecError: TIDE-CDC-001, if the changes lack a declared column, or have a column that the table needs
            itself; TIDE-CDC-002, if the sequence's type has no order; TIDE-CDC-004, if columns have the names
            of Delta's own change feed; TIDE-CDC-006, if `unchanged` names no column.
    """
    feed = sink.cdc
    dropped = [] if feed is None else feed.except_columns
    if sink.change_feed:
        _check_own_feed([name for name in changes.names if not _names(dropped, name)], sink)
    if feed is None:
        return changes
    kept = [field for field in changes if not _names(feed.except_columns, field.name)]
    sequence = next((field.type for field in changes if _names([feed.sequence_by], field.name)), None)
    unchanged = unchanged_columns(changes.names, sink)
    _check_names(changes, kept, sink, unchanged)
    if sequence is None or not _is_ordered(sequence):
        raise SpecError(
            "TIDE-CDC-002",
            "The changes of a feed cannot be ordered by this column.",
            facts={"table": sink.table, "sequence_by": feed.sequence_by, "type": str(sequence)},
            fix="name a column that is a number, a time, a text or a struct of these",
        )
    own = dict.fromkeys(_sequences(sink), sequence)
    own |= {IS_CURRENT: pa.bool_()} if sink.mode == "scd2" else {}
    own[DELETED_AT] = pa.timestamp("us", "UTC")
    if unchanged:
        own[SET_AT] = pa.struct([(name, sequence) for name in unchanged])
    return pa.schema([*kept, *(pa.field(name, type_) for name, type_ in own.items())])


def change_rows(changes: DataFrame, sink: DeltaSink) -> DataFrame:
    """Return each change as a row of the table.

    Not known yet are the `valid_to` of a change that deletes nothing, and the value of a column that a change
    leaves `unchanged`. Such a value is null, and so is its sequence in `_set_at`.
    """
    feed = sink.cdc
    if feed is None:
        return changes
    changes = without_preimages(changes)
    truncates = _holds(feed.truncate)
    deletes = truncates | _holds(feed.apply_as_deletes)
    sequence = F.col(quoted(feed.sequence_by))
    unchanged = unchanged_columns(changes.columns, sink)
    kept = []
    for name in changes.columns:
        if _names(feed.except_columns, name):
            continue
        without = truncates if _names(sink.key, name) else deletes | _holds(unchanged.get(name))
        kept.append(F.when(~without, F.col(quoted(name))).alias(name))
    own = {DELETED_AT: F.when(deletes, F.current_timestamp())}
    if unchanged:
        set_at = (
            F.when(deletes | ~_holds(condition), sequence).alias(name)
            for name, condition in unchanged.items()
        )
        own[SET_AT] = F.struct(*set_at)
    if sink.mode == "scd1":
        own = {SEQUENCE: sequence, **own}
    else:
        own = {VALID_FROM: sequence, VALID_TO: F.when(deletes, sequence), IS_CURRENT: ~deletes, **own}
    return changes.select(*kept, *(column.alias(name) for name, column in own.items()))


def without_preimages(changes: DataFrame) -> DataFrame:
    """Return changes without the old rows of updates, which Delta's change feed also has."""
    if not _names(changes.columns, _CHANGE_TYPE):
        return changes
    return changes.where(~F.col(_CHANGE_TYPE).eqNullSafe("update_preimage"))


def check_changes(changes: DataFrame, path: str, sink: DeltaSink) -> None:
    """Raise an error for changes without a sequence or without a key. Reads all of them.

    Raises:
        DataError: TIDE-CDC-003, TIDE-SINK-022.
    """
    feed = sink.cdc
    if feed is None:
        return
    changes = without_preimages(changes)
    unplaced = F.count(F.when(F.col(quoted(feed.sequence_by)).isNull(), 1)).alias("changes")
    nulls = null_key_counts(sink.key, F.when(_holds(feed.truncate), 0).otherwise(1))
    (found,) = changes.agg(unplaced, *nulls).collect()
    if found["changes"]:
        raise DataError(
            "TIDE-CDC-003",
            "Changes of the feed have no sequence. Nothing was written.",
            facts={
                "table": path,
                "sequence_by": feed.sequence_by,
                "changes_without": found["changes"],
            },
            fix="give them one in the transform, or leave them out by `where`",
        )
    refuse_null_keys(list(found)[1:], path, sink)


def newest(rows: DataFrame, sink: DeltaSink, by: list[str], *last: Column) -> DataFrame:
    """Return one row for each value of `by`: the greatest sequence, with ties decided by `tie_order`."""
    place = Window.partitionBy(*map(quoted, by)).orderBy(
        F.desc(_sequences(sink)[0]), *(F.desc(column) for column in tie_order(rows.columns, sink)), *last
    )
    return rows.withColumn(_PLACE, F.row_number().over(place)).where(F.col(_PLACE) == 1).drop(_PLACE)


def tie_order(columns: list[str], sink: DeltaSink, of: str = "") -> list[Column]:
    """Return the columns that decide between changes with the same key and sequence; the greater one wins.

    The decision must not depend on arrival, so it uses only columns that the table keeps: a delete wins, then
    the columns as JSON. But if a Delta commit deletes and inserts the same row, the row exists after it, and
    a batch may read only half of such a commit.
    """
    deleted_at = F.col(f"{of}{DELETED_AT}")
    by_commit = sink.cdc is not None and _names([_COMMIT_VERSION], sink.cdc.sequence_by)
    added = own_columns(sink)
    # The values of these columns depend on which changes of the key have arrived.
    kept_back = set() if sink.cdc is None else unchanged_columns(columns, sink).keys()
    names = (
        name
        for name in columns
        if name not in added and name not in kept_back and not name.startswith(PASSING)
    )
    kept = [F.col(quoted(name, of)) for name in names]
    return [
        deleted_at.isNull() if by_commit else deleted_at.isNotNull(),
        F.to_json(F.struct(*kept), JSON_OPTIONS),
    ]


def unchanged_columns(columns: list[str], sink: DeltaSink) -> dict[str, str]:
    """Return the condition under which a column keeps its value, by the column as the changes name it.

    Raises:
        SpecError: TIDE-CDC-006, if a single condition does not name exactly one column.
    """
    feed = sink.cdc
    if feed is None:
        return {}
    try:
        declared = feed.unchanged_by(columns)
        for name in declared:
            if _names([*sink.key, feed.sequence_by, *feed.except_columns], name):
                raise ValueError(f"{name} is in the key, the sequence or among `except_columns`")
    except ValueError as error:
        raise SpecError(
            "TIDE-CDC-006",
            "`cdc.unchanged` does not say which columns keep their values. Nothing was started.",
            facts={"table": sink.table, "unchanged": feed.unchanged, "reason": error},
            fix="write a map of columns to conditions, such as unchanged: {body: body = '…'}",
        ) from error
    return {column_named(name, columns) or name: condition for name, condition in declared.items()}


def own_columns(sink: DeltaSink) -> tuple[str, ...]:
    """Return the columns that a table of changes adds to those of the changes."""
    has_set_at = sink.cdc is not None and sink.cdc.unchanged
    return (*OWN_COLUMNS[sink.mode], *([SET_AT] if has_set_at else []))


def _holds(condition: str | None) -> Column:
    """Return true if a condition is true; null counts as false."""
    return F.lit(False) if condition is None else F.coalesce(F.expr(condition), F.lit(False))


def _sequences(sink: DeltaSink) -> list[str]:
    """Return the columns of the sequence's type."""
    return [SEQUENCE] if sink.mode == "scd1" else [VALID_FROM, VALID_TO]


def _check_names(changes: pa.Schema, kept: list[pa.Field], sink: DeltaSink, unchanged: Iterable[str]) -> None:
    feed = sink.cdc
    named = [] if feed is None else [*sink.key, feed.sequence_by, *feed.except_columns, *unchanged]
    missing = sorted({name for name in named if not _names(changes.names, name)})
    taken = [field.name for field in kept if _names(own_columns(sink), field.name)]
    if missing or taken:
        raise SpecError(
            "TIDE-CDC-001",
            "The columns of the changes do not fit the table's declaration. Nothing was started.",
            facts={"table": sink.table, "missing": missing, "names_of_the_table": taken},
            fix="name columns that the result, or the sink's own transform, has"
            if missing
            else "rename them in the transform, or list them in `except_columns`",
        )


def _check_own_feed(kept: list[str], sink: DeltaSink) -> None:
    taken = [name for name in kept if _names(CHANGE_FEED_COLUMNS, name)]
    if taken:
        raise SpecError(
            "TIDE-CDC-004",
            "A table whose changes can be read cannot have columns with the names of a change feed's own.",
            facts={"table": sink.table, "columns": taken},
            fix="rename them in the transform, or list them in `except_columns` of scd1 and scd2",
        )


def _is_ordered(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return all(_is_ordered(field.type) for field in type_.fields)
    return not pa.types.is_nested(type_) and not pa.types.is_boolean(type_)


def _names(names: Iterable[str], name: str) -> bool:
    """Return True if a name is among others."""
    return column_named(name, names) is not None
