"""Changes of a feed as rows of the table that they are applied to.

| table | a row stands for | columns beside the kept ones |
|---|---|---|
| scd1 | the newest change of its key | `_sequence`, `_deleted_at` |
| scd2 | one change | `valid_from`, `valid_to` (null of the newest), `is_current`, `_deleted_at` |

A delete is a row, too: it holds the key, and nulls. Without it an older change that comes later would bring
back what was deleted. In scd1 readers leave out rows with `_deleted_at`; in scd2 the interval of a delete is
empty, so that no moment lies in it.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemill.errors import DataError, SpecError
from tidemill.names import CHANGE_FEED_COLUMNS
from tidemill.spec.change_feed import OWN_COLUMNS
from tidemill.spec.column_names import column_named, quoted
from tidemill.spec.sinks import DeltaSink

SEQUENCE, DELETED_AT = OWN_COLUMNS["scd1"]
VALID_FROM, VALID_TO, IS_CURRENT, _ = OWN_COLUMNS["scd2"]

_CHANGE_TYPE, _COMMIT_VERSION, _ = CHANGE_FEED_COLUMNS

# Columns that no table keeps begin so.
PASSING = "_tidemill_"
_PLACE = f"{PASSING}place"

# Micros, as tables keep them: Spark's default for JSON ends at millis.
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def table_schema(changes: pa.Schema, sink: DeltaSink) -> pa.Schema:
    """Columns of the table.

    Raises:
        SpecError: TIDE-CDC-001, if the changes lack a column that the declaration names, or hold one that
            the table needs itself; TIDE-CDC-002, if the sequence's type has no order; TIDE-CDC-004, if
            columns have the names of Delta's own change feed.
    """
    feed = sink.cdc
    dropped = [] if feed is None else feed.except_columns
    if sink.change_feed:
        _check_own_feed([name for name in changes.names if not _names(dropped, name)], sink)
    if feed is None:
        return changes
    kept = [field for field in changes if not _names(feed.except_columns, field.name)]
    sequence = next((field.type for field in changes if _names([feed.sequence_by], field.name)), None)
    _check_names(changes, kept, sink)
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
    return pa.schema([*kept, *(pa.field(name, type_) for name, type_ in own.items())])


def change_rows(changes: DataFrame, sink: DeltaSink) -> DataFrame:
    """Each change as a row of the table; `valid_to` of a change that deletes nothing is not known yet."""
    feed = sink.cdc
    if feed is None:
        return changes
    if _names(changes.columns, _CHANGE_TYPE):
        # Of a change feed of Delta's: what an update began with is no change.
        changes = changes.where(~F.col(_CHANGE_TYPE).eqNullSafe("update_preimage"))
    deletes = F.coalesce(F.expr(feed.apply_as_deletes or "false"), F.lit(False))
    sequence = F.col(quoted(feed.sequence_by))
    kept = [
        F.col(quoted(name)) if _names(sink.key, name) else F.when(~deletes, F.col(quoted(name))).alias(name)
        for name in changes.columns
        if not _names(feed.except_columns, name)
    ]
    deleted_at = F.when(deletes, F.current_timestamp()).alias(DELETED_AT)
    if sink.mode == "scd1":
        return changes.select(*kept, sequence.alias(SEQUENCE), deleted_at)
    interval = [sequence.alias(VALID_FROM), F.when(deletes, sequence).alias(VALID_TO)]
    return changes.select(*kept, *interval, (~deletes).alias(IS_CURRENT), deleted_at)


def check_sequence(rows: DataFrame, path: str, sink: DeltaSink) -> None:
    """Refuse changes that have no place in the order; reads all of them.

    Raises:
        DataError: TIDE-CDC-003.
    """
    places = F.count(F.when(F.col(_sequences(sink)[0]).isNull(), 1))
    without = rows.agg(places.alias("changes")).collect()[0]["changes"]
    if without:
        raise DataError(
            "TIDE-CDC-003",
            "Changes of the feed have no sequence. Nothing was written.",
            facts={
                "table": path,
                "sequence_by": "" if sink.cdc is None else sink.cdc.sequence_by,
                "changes_without": without,
            },
            fix="give them one in the transform, or leave them out by `where`",
        )


def newest(rows: DataFrame, sink: DeltaSink, by: list[str], *last: Column) -> DataFrame:
    """One row for each value of `by`: of the greatest sequence, and of several such as `tie_order` says."""
    place = Window.partitionBy(*map(quoted, by)).orderBy(
        F.desc(_sequences(sink)[0]), *(F.desc(column) for column in tie_order(rows.columns, sink)), *last
    )
    return rows.withColumn(_PLACE, F.row_number().over(place)).where(F.col(_PLACE) == 1).drop(_PLACE)


def tie_order(columns: list[str], sink: DeltaSink, of: str = "") -> list[Column]:
    """What decides between two changes of one key with the same sequence, the greater one wins.

    Whichever comes first, so only by what the table keeps: a delete, then the columns as JSON. But of a
    commit of Delta's that deletes and inserts a row, the row is there after it; a batch may read half of it.
    """
    deleted_at = F.col(f"{of}{DELETED_AT}")
    by_commit = sink.cdc is not None and _names([_COMMIT_VERSION], sink.cdc.sequence_by)
    added = OWN_COLUMNS[sink.mode]
    names = (name for name in columns if name not in added and not name.startswith(PASSING))
    kept = [F.col(quoted(name, of)) for name in names]
    return [
        deleted_at.isNull() if by_commit else deleted_at.isNotNull(),
        F.to_json(F.struct(*kept), JSON_OPTIONS),
    ]


def _sequences(sink: DeltaSink) -> list[str]:
    """Columns of the sequence's type."""
    return [SEQUENCE] if sink.mode == "scd1" else [VALID_FROM, VALID_TO]


def _check_names(changes: pa.Schema, kept: list[pa.Field], sink: DeltaSink) -> None:
    feed = sink.cdc
    named = [] if feed is None else [*sink.key, feed.sequence_by, *feed.except_columns]
    missing = sorted({name for name in named if not _names(changes.names, name)})
    taken = [field.name for field in kept if _names(OWN_COLUMNS[sink.mode], field.name)]
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
    """True if a name is among others."""
    return column_named(name, names) is not None
