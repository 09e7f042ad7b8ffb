"""Rows that satisfy a table's expectations, rows that violate them, and the counts of both.

The rows come from the cache, which holds the computed batch, and are read there a second time for the counts.
The counts are the result of a query, so lost attempts of tasks add nothing. They are known before the first
commit of the batch, so no commit has to be reverted.
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

# Prefixes of reasons in the quarantine. Table and expectation names follow, or the key columns.
REASON = "expectation"
NULL_KEY = "null_key"
# Pattern of reasons for rows, as opposed to records that could not be decoded.
OF_ROWS = f"^({REASON}|{NULL_KEY}):"

# Column of the quarantine for each lineage column that a row may have kept, followed by the types of these
# columns.
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
    """Rows after the check of their expectations.

    Args:
        rows: Rows to write.
        counts: Counts of all rows by outcome.
        digest: Digest of the rows for the quarantine, independent of their order.
        quarantined: Uncommitted data files of the quarantine with the violating rows.
    """

    rows: DataFrame
    counts: ExpectationCounts
    digest: str
    quarantined: Sequence[PartFile] = ()


@dataclass(frozen=True)
class TableExpectations:
    """Expectations for the rows of one table.

    Args:
        pipeline: Pipeline that writes the table.
        table: Name of the table.
        declared: Expectations by name, in the order of the file.
        key: Columns of the table's key, if rows with a null in one of them go to the quarantine.
        truncate: SQL condition for changes that have no key because they empty the table.
    """

    pipeline: str
    table: str
    declared: Mapping[str, Expectation] = field(default_factory=dict)
    key: Sequence[str] = ()
    truncate: str | None = None

    def check(
        self, rows: DataFrame, quarantine: Quarantine, read: Mapping[str, object], batch_id: int | None = None
    ) -> CheckedRows:
        """Count the rows, refuse or set aside violating rows; change nothing that belongs to a table.

        Args:
            rows: All rows for the table, from the cache.
            quarantine: Table for the rows that are set aside.
            read: Facts about the input, for an error.
            batch_id: Number of a stream's batch.

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
            # A sum does not depend on the order and counts equal rows; the decimal type does not overflow.
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
        """Return the rows as columns of the quarantine: the known origin, and the row as JSON."""
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
        """Return a condition that is true for rows that go to the quarantine."""
        return reduce(or_, self._null_keys().values(), self._any("quarantine"))

    def _null_keys(self) -> dict[str, Column]:
        """Return conditions for rows with a null in the key, by reason, one per column of the key."""
        has_key = F.lit(True) if self.truncate is None else ~F.coalesce(F.expr(self.truncate), F.lit(False))
        return {f"{NULL_KEY}:{name}": F.col(quoted(name)).isNull() & has_key for name in self.key}

    def _with(self, wanted: OnViolation) -> dict[str, Expectation]:
        return {name: e for name, e in self.declared.items() if e.on_violation == wanted}

    def _any(self, wanted: OnViolation) -> Column:
        return reduce(or_, map(_violated, self._with(wanted).values()), F.lit(False))


def places_lacking(rows: DataFrame) -> list[str]:
    """Return the lineage columns that are missing, so that a row does not identify its Kafka record."""
    there = _columns_of(rows, _PLACE)
    return [column for column, known in _PLACE.items() if known not in there]


def _as_json(rows: DataFrame) -> Column:
    return F.to_json(F.struct(*(F.col(quoted(name)) for name in rows.columns)), JSON_OPTIONS)


def _violated(expectation: Expectation) -> Column:
    """Return a condition that is true for a violation; a null result is also a violation."""
    return ~F.coalesce(F.expr(expectation.expect), F.lit(False))


def _columns_of(rows: DataFrame, names: Mapping[str, str]) -> dict[str, Column]:
    """Return the quarantine columns that the rows have.

    A column of another type is ignored, because the transform has reused its name.
    """
    # Spark's column names are case-insensitive.
    there = {field.name.lower(): field.dataType.simpleString() for field in rows.schema}
    return {
        known: F.col(column).alias(known)
        for column, known in names.items()
        if there.get(column) == _TYPES[known]
    }
