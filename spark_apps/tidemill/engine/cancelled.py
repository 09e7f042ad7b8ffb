"""Cancellation of running Spark jobs when a stop is requested; calls that wait for the jobs then fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidemill.engine.batch import DrainedError
from tidemill.engine.drain import Drain

# Interval between checks for a stop, in seconds: the maximum delay before an operator's stop has an effect.
LOOK_SECONDS = 0.5


@contextmanager
def cancelled_by(drain: Drain, spark: SparkSession) -> Iterator[None]:
    """Cancel the Spark jobs of the block once a drain is requested. A commit is one file, so never half done.

    Raises:
        DrainedError: Instead of the error of a cancelled job.
    """
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_SECONDS):
            if drain.requested:
                # Repeated, because the block may be between two jobs.
                spark.sparkContext.cancelAllJobs()

    thread = threading.Thread(target=watch, name="cancel-on-drain", daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        if drain.requested:
            raise DrainedError from error
        raise
    finally:
        done.set()
        thread.join()
