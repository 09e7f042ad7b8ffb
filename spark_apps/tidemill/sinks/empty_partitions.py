"""Refuse empty texts in partition columns, because Delta and Spark's files read them back as null.

Delta's protocol stores the partition values of a file as texts, and an empty text means null ("Partition
Value Serialization"). Spark's files use the folder `__HIVE_DEFAULT_PARTITION__` for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import CharType, StringType, VarcharType

from tidemill.errors import DataError

_ERROR = "TIDE-SINK-020"
# Message of the failing tasks; the column follows in quotes.
_RAISED = "an empty text in the partition column"
_COLUMN = re.compile(rf"{_RAISED} '([^']*)'")


def without_empty_texts(rows: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """Return the rows; a task that reads an empty text in a partition column fails.

    It costs no pass over the rows, because the check is part of the written column.
    """
    wanted = {name.lower() for name in partition_by}
    texts = [
        field.name
        for field in rows.schema
        if field.name.lower() in wanted and isinstance(field.dataType, StringType | CharType | VarcharType)
    ]
    return rows.withColumns({name: _not_empty(name) for name in texts}) if texts else rows


@contextmanager
def refusing_empty_texts(place: str) -> Iterator[None]:
    """Name the column in the error when rows of `without_empty_texts` are written.

    Args:
        place: The table or folder.

    Raises:
        DataError: TIDE-SINK-020. Nothing of the batch is in this table or folder.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = _COLUMN.search(str(error))
        if found is None:
            raise
        raise _refused(place, found[1]) from error


def _refused(place: str, column: str) -> DataError:
    rest = f"{column} <> '' or {column} is null"
    return DataError(
        _ERROR,
        "A partition column holds an empty text, which would read back as null. Nothing of the batch was "
        "written here.",
        facts={"place": place, "column": column},
        fix=f"leave such rows out of a table with an expectation, `expect: {rest}` and `on_violation: "
        "quarantine` or `drop`, and of files with the same condition as `where`; or write "
        f"`nullif({column}, '')` in the transform, if an empty text means null",
    )


def _not_empty(name: str) -> Column:
    column = F.col(f"`{name}`")
    return F.when(column == "", F.raise_error(f"{_RAISED} '{name}'").cast("string")).otherwise(column)
