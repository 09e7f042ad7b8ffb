"""Record counts for file sources in the progress of a batch, where Spark counts ranges of files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.accumulators import Accumulator

from tidemill.sources.file_scan import scanned_folder
from tidemill.spec.project import Pipeline

# Prefix of a file source in Spark's progress: "FileStreamSource[file:/landing]".
_FILES = "FileStreamSource["

_RATES = ("inputRowsPerSecond", "processedRowsPerSecond")


class FileRecords:
    """Counts the records of files that the batches have read.

    Args:
        counted: Accumulators by stream, which the tasks of all batches increment.
        folders: Folder of each stream.
    """

    def __init__(self, counted: Mapping[str, Accumulator[int]], folders: Mapping[str, str]) -> None:
        self.counted = counted
        self._folders = folders
        self._before = dict.fromkeys(counted, 0)
        # Counts by batch, until Spark has reported the end of the batch.
        self._by_batch: dict[int, dict[str, int]] = {}

    @staticmethod
    def of(context: SparkContext, pipeline: Pipeline) -> FileRecords:
        """Return an instance with all counts at zero."""
        parts = {name: part for name, part in pipeline.streams.items() if part.spec.source.files is not None}
        return FileRecords(
            {name: context.accumulator(0) for name in parts},
            {name: scanned_folder(part) for name, part in parts.items()},
        )

    def batch_ended(self, batch_id: int | None) -> None:
        """Store the counts since the last batch."""
        now = {name: counter.value for name, counter in self.counted.items()}
        if batch_id is not None:
            self._by_batch[batch_id] = {name: count - self._before[name] for name, count in now.items()}
        self._before = now

    def in_progress(self, progress: dict[str, Any]) -> dict[str, Any]:
        """Return Spark's progress of a batch with record counts instead of range counts.

        Spark's numbers stay for a batch that wrote nothing here, and for a source that two streams list.
        """
        counted = self._by_batch.pop(int(progress["batchId"]), None)
        if not counted:
            return progress
        sources = [self._of_source(source, counted) for source in progress.get("sources", [])]
        changed = {**progress, "sources": sources}
        return _with_rows(changed, sum(int(source.get("numInputRows", 0)) for source in sources))

    def _of_source(self, source: dict[str, Any], counted: Mapping[str, int]) -> dict[str, Any]:
        description = str(source.get("description", ""))
        if not description.startswith(_FILES):
            return source
        alone = len(self._folders) == 1
        streams = [
            name for name, folder in self._folders.items() if alone or description.endswith(f"{folder}]")
        ]
        return _with_rows(source, counted[streams[0]]) if len(streams) == 1 else source


def _with_rows(progress: dict[str, Any], rows: int) -> dict[str, Any]:
    """Return a progress with another number of rows, and with the rates scaled to it."""
    before = int(progress.get("numInputRows", 0))
    scale = rows / before if before else 0.0
    rates = {name: progress[name] * scale for name in _RATES if isinstance(progress.get(name), int | float)}
    return {**progress, "numInputRows": rows, **rates}
