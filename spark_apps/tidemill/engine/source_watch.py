"""A check that reports an unavailable source of a running query, long before Spark does."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidemill.engine.availability import check_source
from tidemill.engine.reporter import Reporter
from tidemill.errors import TidemillError
from tidemill.spec.project import Pipeline

# Silence of a query, in seconds, after which the driver checks the source itself. It is longer than the 10 s
# after which Spark reports an idle query, and far shorter than the minutes that its Kafka clients wait for a
# broker.
SILENCE_SECONDS = 12.0


class SourceWatch:
    """Checks the source while Spark is silent, and reports errors in the status.

    The query is not stopped. It continues if the source becomes available again before Spark gives up. The
    next event of the query removes the error from the status.
    """

    def __init__(
        self, pipeline: Pipeline, reporter: Reporter, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pipeline = pipeline
        self._reporter = reporter
        self._clock = clock
        self._looked_at = clock()

    def look(self) -> None:
        """Check the source, if Spark has been silent for `SILENCE_SECONDS`."""
        if self._clock() - max(self._looked_at, self._reporter.heard_at) < SILENCE_SECONDS:
            return
        try:
            check_source(self._pipeline)
        except TidemillError as error:
            self._reporter.state("waiting", error)
        else:
            if self._reporter.status.trigger and self._reporter.status.error is not None:
                # Without batches, Spark sends no event when the source is available again.
                self._reporter.state("running")
        self._looked_at = self._clock()
