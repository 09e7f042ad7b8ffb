"""The columns that a stream's files have for one start of its query, and what the tasks find beside them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from tidemill.payload.inferred_schema import Node, extended, merged
from tidemill.payload.json_schema import PayloadSchema, load_payload_schema
from tidemill.payload.schema_hints import hinted_columns
from tidemill.spec.files_source import Evolution, FilesSource

# Most columns, structs taken apart. An object whose names are data (dates, ids) would add some with each
# file.
MAX_COLUMNS = 2000


class _Merged(AccumulatorParam[Node | None]):
    """What was found, in any order."""

    def zero(self, value: Node | None) -> Node | None:  # noqa: ARG002  # Spark's
        return None

    def addInPlace(self, value1: Node | None, value2: Node | None) -> Node | None:  # noqa: N802  # Spark's name
        return merged(value1, value2)


@dataclass(frozen=True)
class DiscoveredColumns:
    """The columns of one stream.

    Args:
        evolution: What becomes of a name that no column has.
        columns: As JSON Schema, hints included.
        version: Number of the version that they are, as it is stored.
        found: Carries what the tasks find from them to the driver.
    """

    evolution: Evolution
    columns: Node
    version: int
    found: Accumulator[Node | None]

    @staticmethod
    def of(context: SparkContext, files: FilesSource, stored: Node, version: int) -> DiscoveredColumns:
        """The columns of a stored version, as the declaration hints at them."""
        columns = extended(hinted_columns(files.schema_hints), stored)
        found: Accumulator[Node | None] = context.accumulator(None, _Merged())
        return DiscoveredColumns(files.schema_evolution or "none", columns, version, found)

    @property
    def keeps_names(self) -> bool:
        """Whether names that no column has are looked for and rescued."""
        return self.evolution != "none"

    @property
    def wants_new(self) -> bool:
        """Whether the driver is told of names that could be columns."""
        return self.evolution in ("add_columns", "fail")

    @cached_property
    def schema(self) -> PayloadSchema:
        """For the decoder."""
        return load_payload_schema(self.columns, "schema_hints")

    @property
    def identity(self) -> str:
        """Version and digest: of equal identity, lines become equal rows."""
        deciding = json.dumps([self.columns, self.evolution], sort_keys=True)
        return f"{self.version}-{hashlib.sha256(deciding.encode()).hexdigest()[:8]}"
