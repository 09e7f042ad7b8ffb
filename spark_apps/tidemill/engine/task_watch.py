"""A watch on the tasks of a long batch; it reports progress, or that no executor is available."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark import SparkContext

from tidemill.engine.reporter import Reporter
from tidemill.errors import UnavailableError
from tidemill.spec.project import Pipeline

# Interval between requests to Spark, in seconds. It is far below the silence that counts as hung
# (liveness.py), and causes only a negligible number of calls into the JVM.
LOOK_SECONDS = 10.0

# Interval at which the thread of a watch wakes up, and maximum time for which the end of the work waits for a
# running request, in seconds. The request goes to a JVM, which may hang.
WAKE_SECONDS = 1.0
LAST_LOOK_SECONDS = 5.0

_NO_EXECUTOR = "TIDE-K8S-022"

log = structlog.get_logger()


class Work(NamedTuple):
    """Current work of Spark.

    Args:
        stages: Numbers of the stages that run or wait for executors.
        ended_tasks: Number of ended tasks of these stages.
        executors: Number of executors apart from the driver; None if the driver works alone.
    """

    stages: tuple[int, ...]
    ended_tasks: int
    executors: int | None


class SeeWork(Protocol):
    """Function that returns the current work."""

    def __call__(self) -> Work:
        """Return Spark's current work."""


def work_of(context: SparkContext) -> Work:
    """Return the current work of a Spark session."""
    tracker = context.statusTracker()
    stages = tuple(sorted(tracker.getActiveStageIds()))
    infos = (tracker.getStageInfo(stage) for stage in stages)
    ended = sum(info.numCompletedTasks + info.numFailedTasks for info in infos if info is not None)
    if context._jsc.sc().isLocal():
        return Work(stages, ended, None)
    # The status includes the driver.
    return Work(stages, ended, context._jsc.sc().getExecutorMemoryStatus().size() - 1)


class TaskWatch:
    """Reports ended tasks, which are progress, to the reporter; Spark itself reports only ended batches."""

    def __init__(
        self,
        pipeline: Pipeline,
        reporter: Reporter,
        see: SeeWork,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._reporter = reporter
        self._see = see
        self._clock = clock
        self._looked_at = clock()
        self._seen: Work | None = None

    def look(self) -> None:
        """Check the work, if the last check is at least `LOOK_SECONDS` old."""
        if self._clock() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        try:
            before, self._seen = self._seen, self._see()
        except Py4JError as error:
            # A watch must not stop a stream. If the JVM died, the next call for the query fails.
            log.warning("work_not_seen", pipeline=self._pipeline.name, reason=type(error).__name__)
            return
        if before is not None:
            self._tell(before, self._seen)

    def _tell(self, before: Work, now: Work) -> None:
        if now.stages and now != before:
            self._reporter.works()
        if now.stages and before.executors == now.executors == 0:
            self._reporter.state("waiting", no_executor(self._pipeline))
        elif now.executors and (self._reporter.status.error or {}).get("id") == _NO_EXECUTOR:
            self._reporter.state("running")


@contextmanager
def looking(watch: TaskWatch) -> Iterator[None]:
    """Run the watch in a separate thread during the block, whose calls return only when Spark is done."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(WAKE_SECONDS):
            watch.look()

    thread = threading.Thread(target=look, name="task-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(LAST_LOOK_SECONDS)


def no_executor(pipeline: Pipeline) -> UnavailableError:
    """Return TIDE-K8S-022: tasks wait, and there is no executor."""
    settings = pipeline.environment.spec.kubernetes
    return UnavailableError(
        _NO_EXECUTOR,
        "The batch waits for an executor, and none has come.",
        facts={
            "pipeline": pipeline.name,
            "namespace": "" if settings is None else settings.namespace,
            "size": pipeline.spec.run.size,
        },
        fix="see why its pods do not start: kubectl get pods,events; the batch goes on by itself then",
        runbook="executors-missing",
    )
