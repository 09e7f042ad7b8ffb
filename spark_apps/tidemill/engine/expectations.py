"""Rows that a table's expectations let in, those that they do not, and how many of each.

The rows come from the cache, where the batch is once it has been computed, and are read there once more to be
counted. The counts are the result of a query, so an attempt of a task that was lost counts nothing. They are
known before the first commit of the batch: nothing has to be taken back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemill.errors import DataError
from tidemill.ledger.entry import ExpectationCounts
from tidemill.names import LINEAGE_COLUMNS
from tidemill.payload.quarantine import QUARANTINE_SCHEMA, Quarantine
from tidemill.sinks.change_rows import JSON_OPTIONS
from tidemill.sinks.part_files import write_parts
from tidemill.spec.column_names import quoted
from tidemill.spec.expectations import Expectation, OnViolation
from tidemill.storage.parquet_part import PartFile

# What reasons of the quarantine begin with: table and names of the expectations follow, or columns of a key.
REASON = "expectation"
NULL_KEY = "null_key"
# Pattern of the reasons that are of rows, not of records that could not be decoded.
OF_ROWS = f"^({REASON}|{NULL_KEY}):"

# What the quarantine says of a record, by the lineage column that a row may have kept; then with its type.
_PLACE = dict(zip(LINEAGE_COLUMNS, ("topic", "partition", "offset"), strict=True))
_OF_RECORD = {**_PLACE, "kafka_timestamp": "arrived_at", "kafka_key": "key"}
_TYPES = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "file": "string",
    "line": "bigint",
    "arrived_at": "timestamp",
    "key": "binary",
}


@dataclass(frozen=True)
class CheckedRows:
    """Rows after their expectations.

    Args:
        rows: Those to be written.
        counts: What became of all.
        digest: Of the rows that go to the quarantine, in whatever order they come.
        quarantined: Data files of the quarantine with the others, not committed yet.
    """

    rows: DataFrame
    counts: ExpectationCounts
    digest: str
    quarantined: Sequence[PartFile] = ()


@dataclass(frozen=True)
class TableExpectations:
    """What is expected of the rows of one table.

    Args:
        pipeline: Whose table it is.
        table: Its name.
        declared: By name, in the order of the file.
        key: Columns of the table's key, if rows that lack one of them go to the quarantine.
        truncate: SQL condition of changes that have no key, since they empty the table.
    """

    pipeline: str
    table: str
    declared: Mapping[str, Expectation] = field(default_factory=dict)
    key: Sequence[str] = ()
    truncate: str | None = None

    def check(
        self, rows: DataFrame, quarantine: Quarantine, read: Mapping[str, object], batch_id: int | None = None
    ) -> CheckedRows:
        """Count, refuse, and set aside; writes nothing that belongs to a table.

        Args:
            rows: All that the table would be given, from the cache.
            quarantine: Where rows go.
            read: What was read, as facts of an error.
            batch_id: Of a stream.

        Raises:
            DataError: TIDE-EXP-001.
        """
        (told,) = rows.agg(*self._sums(rows)).collect()
        self._refuse(told, read)
        counts = ExpectationCounts(
            checked=told["checked"],
            dropped=told["dropped"],
            quarantined=told["quarantined"],
            violations={name: told[f"violations_{name}"] for name in (*self.declared, *self._null_keys())},
        )
        kept = rows.where(~(self._any("drop") | self._aside()))
        digest = f"{int(told['digest'] or 0):x}"
        if not counts.quarantined:
            return CheckedRows(kept, counts, digest)
        records = rows.where(self._aside()).select(*self._records(rows, quarantine.run_id, batch_id))
        return CheckedRows(kept, counts, digest, write_parts(records, quarantine.path, QUARANTINE_SCHEMA))

    def _sums(self, rows: DataFrame) -> list[Column]:
        aside, dropped = self._aside(), self._any("drop")
        place = _columns_of(rows, _PLACE)
        where = F.struct(*place.values()) if len(place) == len(_PLACE) else F.lit(None).cast("string")
        return [
            F.count(F.lit(1)).alias("checked"),
            F.count(F.when(aside, 1)).alias("quarantined"),
            # A sum has no order, and counts equal rows; as a decimal it does not overflow.
            F.sum(F.when(aside, self._fingerprint(rows))).alias("digest"),
            F.count(F.when(dropped & ~aside, 1)).alias("dropped"),
            *(F.count(F.when(_violated(e), 1)).alias(f"violations_{n}") for n, e in self.declared.items()),
            *(F.count(F.when(null, 1)).alias(f"violations_{n}") for n, null in self._null_keys().items()),
            *(F.min(F.when(_violated(e), where)).alias(f"first_{n}") for n, e in self._with("fail").items()),
        ]

    def _refuse(self, told: Any, read: Mapping[str, object]) -> None:
        violated = [name for name in self._with("fail") if told[f"violations_{name}"]]
        if not violated:
            return
        place = told[f"first_{violated[0]}"]
        raise DataError(
            "TIDE-EXP-001",
            "Rows violate an expectation that allows none. Nothing of the batch was written.",
            facts={
                "pipeline": self.pipeline,
                "table": self.table,
                "expectation": violated[0],
                "violations": told[f"violations_{violated[0]}"],
                "checked": told["checked"],
                **({} if len(violated) == 1 else {"violated_too": ", ".join(violated[1:])}),
                **({} if place is None else dict(zip(_PLACE.values(), place, strict=True))),
                **read,
            },
            fix="correct what is read, or the transform; or say `on_violation: quarantine`, which keeps such "
            "rows apart with this expectation as their reason",
            runbook="expectation-failed",
        )

    def _records(self, rows: DataFrame, run_id: str, batch_id: int | None) -> list[Column]:
        """The rows as records of the quarantine: what is known of the place, and the row as JSON."""
        told = {
            "reason": self._reason(),
            **{name: F.lit(None).cast(kind) for name, kind in _TYPES.items()},
            **_columns_of(rows, _OF_RECORD),
            "value": _as_json(rows).cast("binary"),
            "quarantined_at": F.lit(datetime.now(UTC)),
            "batch_id": F.lit(batch_id).cast("bigint"),
            "run_id": F.lit(run_id),
        }
        return [told[name].alias(name) for name in QUARANTINE_SCHEMA.names]

    def _reason(self) -> Column:
        names = (F.when(_violated(e), F.lit(name)) for name, e in self._with("quarantine").items())
        violated = F.concat(F.lit(f"{REASON}:{self.table}:"), F.concat_ws(",", *names))
        if not self.key:
            return violated
        nulls = self._null_keys().values()
        lacking = (F.when(null, F.lit(name)) for name, null in zip(self.key, nulls, strict=True))
        return F.when(
            reduce(or_, nulls), F.concat(F.lit(f"{NULL_KEY}:"), F.concat_ws(",", *lacking))
        ).otherwise(violated)

    def _fingerprint(self, rows: DataFrame) -> Column:
        if not self._with("quarantine") and not self.key:
            return F.lit(None).cast("decimal(20,0)")
        return F.xxhash64(self._reason(), _as_json(rows)).cast("decimal(20,0)")

    def _aside(self) -> Column:
        """True of a row that goes to the quarantine."""
        return reduce(or_, self._null_keys().values(), self._any("quarantine"))

    def _null_keys(self) -> dict[str, Column]:
        """Return conditions on a row without a key, by reason, one for each column of the key."""
        has_key = F.lit(True) if self.truncate is None else ~F.coalesce(F.expr(self.truncate), F.lit(False))
        return {f"{NULL_KEY}:{name}": F.col(quoted(name)).isNull() & has_key for name in self.key}

    def _with(self, wanted: OnViolation) -> dict[str, Expectation]:
        return {name: e for name, e in self.declared.items() if e.on_violation == wanted}

    def _any(self, wanted: OnViolation) -> Column:
        return reduce(or_, map(_violated, self._with(wanted).values()), F.lit(False))


def places_lacking(rows: DataFrame) -> list[str]:
    """Lineage columns that rows would need to say which record of a topic each is of."""
    there = _columns_of(rows, _PLACE)
    return [column for column, known in _PLACE.items() if known not in there]


def _as_json(rows: DataFrame) -> Column:
    return F.to_json(F.struct(*(F.col(quoted(name)) for name in rows.columns)), JSON_OPTIONS)


def _violated(expectation: Expectation) -> Column:
    """Null violates, too: nothing is known of what was expected."""
    return ~F.coalesce(F.expr(expectation.expect), F.lit(False))


def _columns_of(rows: DataFrame, names: Mapping[str, str]) -> dict[str, Column]:
    """Columns of the quarantine that the rows have; one that a transform made something else of is none."""
    # Spark does not tell columns apart by case.
    there = {field.name.lower(): field.dataType.simpleString() for field in rows.schema}
    return {
        known: F.col(column).alias(known)
        for column, known in names.items()
        if there.get(column) == _TYPES[known]
    }
