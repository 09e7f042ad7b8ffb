"""The columns of a stream's files for one start of its query, and the new columns that the tasks find."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from tidemill.payload.inferred_schema import Node, extended, merged
from tidemill.payload.json_schema import PayloadSchema, load_payload_schema
from tidemill.payload.schema_hints import hints_of
from tidemill.spec.files_source import Evolution, FilesSource


@dataclass(frozen=True)
class CsvForm:
    """Rules for reading a CSV file, in addition to its columns.

    Args:
        separator: Character between two fields.
        hinted: Columns whose type was not inferred, in order.
    """

    separator: str
    hinted: tuple[str, ...] = ()


# Maximum number of columns, counting the fields of structs. An object whose names are data (dates, ids) would
# add some with each file.
MAX_COLUMNS = 2000


class _Merged(AccumulatorParam[Node | None]):
    """The merged columns, in any order."""

    def zero(self, value: Node | None) -> Node | None:  # noqa: ARG002  # Spark's
        return None

    def addInPlace(self, value1: Node | None, value2: Node | None) -> Node | None:  # noqa: N802  # Spark's name
        return merged(value1, value2)


@dataclass(frozen=True)
class DiscoveredColumns:
    """The columns of one stream.

    Args:
        evolution: Handling of a name without a column.
        columns: Columns as JSON Schema, including hints.
        version: Number of the stored version.
        found: Carries the columns that the tasks find to the driver.
        csv: Form of the files, if they are CSV; other files are lines of JSON.
    """

    evolution: Evolution
    columns: Node
    version: int
    found: Accumulator[Node | None]
    csv: CsvForm | None = None

    @staticmethod
    def of(context: SparkContext, files: FilesSource, stored: Node, version: int) -> DiscoveredColumns:
        """Return the columns of a stored version, with the hints of the declaration."""
        columns = extended(hints_of(files), stored)
        found: Accumulator[Node | None] = context.accumulator(None, _Merged())
        evolution = files.schema_evolution or "none"
        return DiscoveredColumns(evolution, columns, version, found, csv_form(files))

    @property
    def keeps_names(self) -> bool:
        """Return True if names without a column are searched and rescued."""
        return self.evolution != "none"

    @property
    def wants_new(self) -> bool:
        """Return True if the driver needs the names that could be columns."""
        return self.evolution in ("add_columns", "fail")

    @cached_property
    def schema(self) -> PayloadSchema:
        """Return the schema for the decoder."""
        return load_payload_schema(self.columns, "schema_hints")

    @property
    def identity(self) -> str:
        """Return version and digest; with an equal identity, equal lines become equal rows."""
        form = [] if self.csv is None else [asdict(self.csv)]
        deciding = json.dumps([self.columns, self.evolution, *form], sort_keys=True)
        return f"{self.version}-{hashlib.sha256(deciding.encode()).hexdigest()[:8]}"


def csv_form(files: FilesSource) -> CsvForm | None:
    """Return the form of a source's files, if they are CSV."""
    if files.format != "csv":
        return None
    return CsvForm(files.separator, tuple(sorted(hints_of(files)["properties"])))
