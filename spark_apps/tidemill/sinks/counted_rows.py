"""Count rows while a JVM sink writes them, without a second pass."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_COUNT = "tidemill_rows_written"


class CountedRows:
    """Rows with a count that is available after they were written.

    Spark adds the count of each partition once, even if its task was repeated. `Observation` would wait for
    ever, because Spark completes it at the end of a SQL command, and sinks run plans.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: DataFrame) -> None:
        self.frame = rows.observe(_COUNT, F.count(F.lit(1)))

    @property
    def count(self) -> int:
        """Return the number of rows in the run of this frame; 0 before it has run."""
        frame: Any = self.frame
        metrics = frame._jdf.queryExecution().observedMetrics()
        found = metrics.get(_COUNT)
        return int(found.get().getLong(0)) if found.isDefined() else 0
