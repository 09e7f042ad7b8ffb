"""Compare the names in files with the declared columns, because a misspelt column is null in every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.accumulators import Accumulator, AccumulatorParam

from tidemill.spec.near_key import near_key

# Maximum number of undeclared names in the report. They come from the data.
MAX_NAMES = 20


@dataclass(frozen=True)
class FileColumns:
    """Names in files.

    Args:
        files: Number of files.
        found: Number of files that have a declared column, by its name.
        others: Number of files that have a name that is not a column, by that name.
    """

    files: int = 0
    found: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: FileColumns) -> FileColumns:
        return FileColumns(self.files + other.files, self.found + other.found, self.others + other.others)

    def notes(self, declared: Sequence[str]) -> list[str]:
        """Return notes for the user about the names."""
        notes = []
        for name in declared:
            lacking = self.files - self.found[name]
            if self.files and lacking == self.files:
                near = near_key(name, list(self.others))
                hint = f"; did you mean {near}?" if near else ""
                notes.append(f"no file of {self.files} has the column {name}{hint}")
            elif lacking:
                notes.append(f"{lacking} of {self.files} files lack the column {name}")
        if self.others:
            others = [name for name, _ in self.others.most_common()]
            notes.append(f"files have names that are not columns: {some(others)}")
        return notes


def some(names: Sequence[str]) -> str:
    """Return the first `MAX_NAMES` names, and the number of others."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


class _Summed(AccumulatorParam[FileColumns]):
    def zero(self, value: FileColumns) -> FileColumns:  # noqa: ARG002  # Spark's
        return FileColumns()

    def addInPlace(self, value1: FileColumns, value2: FileColumns) -> FileColumns:  # noqa: N802  # Spark's name
        return value1 + value2


SUMMED = _Summed()


class NamesInFiles:
    """Collects the names of the files that one pass of a task reads.

    Args:
        declared: The columns.
        report: Carries the names to the driver.
    """

    def __init__(self, declared: Sequence[str], report: Accumulator[FileColumns] | None) -> None:
        self._declared = declared
        self._report = report
        self._found = FileColumns()

    def add(self, columns: Sequence[str | None], others: Sequence[str] = ()) -> None:
        """Add a file.

        Args:
            columns: The file's name for each declared column; None if the file lacks it.
            others: Its names that are not columns.
        """
        pairs = zip(self._declared, columns, strict=True)
        found = Counter(declared for declared, name in pairs if name is not None)
        self._found += FileColumns(1, found, Counter(others))

    def finish(self) -> None:
        """End the pass, and report the names."""
        if self._report is not None and self._found.files:
            self._report.add(self._found)
        self._found = FileColumns()
