"""Pass rows to user code: row by row to a writer in each task, or as a batch to a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, Row

from tidemill.errors import DataError, TidemillError, UnavailableError
from tidemill.failed_at import failed_at
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.batch_token import BatchToken


def write_rows(frame: DataFrame, writer: type, batch_id: int) -> int:
    """Pass each row to a writer, one per task. If the writer raises, the batch fails and is repeated.

    Returns:
        Number of rows that writers accepted and processed. Spark adds the count of each partition once, even
        if its task was repeated.
    """
    processed = frame.sparkSession.sparkContext.accumulator(0)

    def write(rows: Iterator[Row]) -> None:
        _write_partition(writer, batch_id, _counted(rows, processed))

    frame.foreachPartition(write)
    return processed.value


def _counted(rows: Iterator[Row], processed: Accumulator[int]) -> Iterator[Row]:
    for row in rows:
        yield row
        processed.add(1)


def _write_partition(writer: type, batch_id: int, rows: Iterator[Row]) -> None:
    """Do what Spark's own foreach does: open, process each row if it is wanted, close."""
    handler: Any = writer()
    context = TaskContext.get()
    error: BaseException | None = None
    try:
        if wants_rows(handler, 0 if context is None else context.partitionId(), batch_id):
            for row in rows:
                handler.process(row)
    except BaseException as failure:
        error = failure
        raise
    finally:
        if hasattr(handler, "close"):
            handler.close(error)


def wants_rows(handler: Any, partition_id: int, batch_id: int) -> bool:
    """Return True if a writer wants the rows of a task.

    Raises:
        TypeError: If its `open` does not return a bool.
    """
    if not hasattr(handler, "open"):
        return True
    answer = handler.open(partition_id, batch_id)
    if not isinstance(answer, bool):
        # Spark would treat None as False, and silently drop the rows.
        raise TypeError(
            "`open` of the writer says by True or False whether it wants the rows; it said neither"
        )
    return answer


def call_with_batch(
    frame: DataFrame, function: Callable[[DataFrame, BatchToken], object], commit: BatchCommit
) -> None:
    """Pass a batch to a function.

    Raises:
        UnavailableError: TIDE-SINK-015, if its target does not answer; the batch is repeated later.
        DataError: TIDE-SINK-014, if it fails in any other way.
    """
    try:
        function(frame, BatchToken.of(commit))
    except TidemillError:
        raise
    except Exception as error:  # a user's function can fail in any way
        away = _is_away(error)
        # The rest of the message may name the address or file of a record.
        words = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        facts = {
            "pipeline": commit.entry.pipeline,
            "output": commit.entry.output,
            "batch_id": commit.batch_id,
            "reason": f"{failed_at(error)}{words}",
        }
        if away:
            raise UnavailableError(
                "TIDE-SINK-015",
                "What a sink writes to does not answer.",
                facts=facts,
                fix="see it; the batch is repeated, with the same token",
            ) from error
        raise DataError(
            "TIDE-SINK-014",
            "The function of a sink has failed. Tables have the batch; what the function wrote is its own "
            "to know.",
            facts=facts,
            fix="correct the function; the batch is repeated, with the same token",
        ) from error


def _is_away(error: Exception) -> bool:
    """Return True for a network error, or for an operational error of a database (PEP 249)."""
    return isinstance(error, OSError) or any(
        kind.__name__ == "OperationalError" for kind in type(error).__mro__
    )
