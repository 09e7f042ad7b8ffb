"""Ending Spark's running work when a stop is asked for; the calls that wait for it then fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidemill.engine.batch import DrainedError
from tidemill.engine.drain import Drain

# How often a stop is looked for, in seconds: what a person who stopped it may wait for, at most.
LOOK_SECONDS = 0.5


@contextmanager
def cancelled_by(drain: Drain, spark: SparkSession) -> Iterator[None]:
    """Cancel the block's Spark jobs once a drain is requested. A commit is one file, never half done.

    Raises:
        DrainedError: In place of what a cancelled job raised.
    """
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_SECONDS):
            if drain.requested:
                # Again and again: the block may be between two jobs.
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
