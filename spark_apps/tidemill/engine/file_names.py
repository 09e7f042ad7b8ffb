"""Reports declared columns that no file has, and names in files that are not columns, after each batch."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from pyspark import SparkContext
from pyspark.accumulators import Accumulator

from tidemill.engine.reporter import Reporter
from tidemill.payload.declared_columns import declared_schema
from tidemill.payload.files.file_columns import SUMMED, FileColumns
from tidemill.spec.project import Pipeline

log = structlog.get_logger()


class FileNamesReport:
    """Keeps the names in the files that a driver has read.

    Args:
        context: Of the session.
        pipeline: The pipeline.
    """

    def __init__(self, context: SparkContext, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._declared = {
            name: declared_schema(stream.source.files).arrow_schema.names
            for name, stream in pipeline.spec.streams.items()
            if stream.source.files is not None
            and stream.payload is None
            and not stream.source.files.discovers
        }
        self.collected: Mapping[str, Accumulator[FileColumns]] = {
            name: context.accumulator(FileColumns(), SUMMED) for name in self._declared
        }
        self._reported: list[str] = []

    def look(self, reporter: Reporter) -> None:
        """Log the notes if they have changed, and put them into the status."""
        notes = [
            note
            for name, declared in self._declared.items()
            for note in self.collected[name].value.notes(declared)
        ]
        if notes != self._reported:
            log.warning("columns_of_files", pipeline=self._pipeline.name, notes=notes)
            reporter.note(notes)
            self._reported = notes
