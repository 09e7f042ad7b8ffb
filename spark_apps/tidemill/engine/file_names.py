"""Reports of declared columns that no file has, other names in files, and files that Java cannot open."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from tidemill.engine.reporter import Reporter
from tidemill.payload.declared_columns import declared_schema
from tidemill.payload.files.file_columns import SUMMED, FileColumns, some
from tidemill.sources.file_scan import unread_names
from tidemill.spec.project import Pipeline

log = structlog.get_logger()


class FileNamesReport:
    """Collects the names in the files that a driver has read.

    Args:
        session: Reads the files.
        pipeline: The pipeline.
    """

    def __init__(self, session: SparkSession, pipeline: Pipeline) -> None:
        self._session = session
        self._pipeline = pipeline
        self._streams = _of_files(pipeline)
        self._declared = {
            name: declared_schema(files).arrow_schema.names
            for name, stream in pipeline.spec.streams.items()
            if (files := stream.source.files) is not None and stream.payload is None and not files.discovers
        }
        self.collected: Mapping[str, Accumulator[FileColumns]] = {
            name: session.sparkContext.accumulator(FileColumns(), SUMMED) for name in self._declared
        }
        self._reported: list[str] = []

    def look(self, reporter: Reporter) -> None:
        """Log the notes if they have changed, and add them to the status."""
        notes = [
            note
            for name, declared in self._declared.items()
            for note in self.collected[name].value.notes(declared)
        ]
        if self._streams:
            notes += _unread_files(self._session, self._streams)
        if notes != self._reported:
            _report(notes, self._pipeline, reporter)
            self._reported = notes


def report_unread_files(session: SparkSession, pipeline: Pipeline, reporter: Reporter) -> None:
    """Report files that Java cannot open, for a backfill."""
    if notes := _unread_files(session, _of_files(pipeline)):
        _report(notes, pipeline, reporter)


def _report(notes: list[str], pipeline: Pipeline, reporter: Reporter) -> None:
    log.warning("notes_of_files", pipeline=pipeline.name, notes=notes)
    reporter.note(notes)


def _of_files(pipeline: Pipeline) -> list[Pipeline]:
    """Return the streams that read files."""
    return [stream for stream in pipeline.streams.values() if stream.spec.source.files is not None]


def _unread_files(session: SparkSession, streams: list[Pipeline]) -> list[str]:
    """Return a note about files that the session has listed but cannot open by name."""
    names = [name for stream in streams for name in unread_names(session, stream)]
    if not names:
        return []
    return [f"not read: the names of {some(names)} are not UTF-8. With another name a file is read"]
