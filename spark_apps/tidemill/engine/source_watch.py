"""Saying that the source of a running query is unavailable, long before Spark does."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidemill.engine.availability import check_source
from tidemill.engine.reporter import Reporter
from tidemill.errors import TidemillError
from tidemill.spec.project import Pipeline

# Silence of a query, in seconds, after which the driver looks at the source itself. Above the 10 s after
# which Spark says that a query idles; far below the minutes that its Kafka clients wait for a broker.
SILENCE_SECONDS = 12.0


class SourceWatch:
    """Looks at the source while Spark says nothing, and puts what is wrong into the status.

    The query itself is left alone: it goes on when the source is back within Spark's patience. Its next
    event takes the error out of the status.
    """

    def __init__(
        self, pipeline: Pipeline, reporter: Reporter, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pipeline = pipeline
        self._reporter = reporter
        self._clock = clock
        self._looked_at = clock()

    def look(self) -> None:
        """Look, if there was silence for long enough."""
        if self._clock() - max(self._looked_at, self._reporter.heard_at) < SILENCE_SECONDS:
            return
        try:
            check_source(self._pipeline)
        except TidemillError as error:
            self._reporter.state("waiting", error)
        else:
            if self._reporter.status.trigger and self._reporter.status.error is not None:
                # Without batches Spark says nothing when it is back.
                self._reporter.state("running")
        self._looked_at = self._clock()
