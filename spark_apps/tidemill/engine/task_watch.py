"""Seeing that a long batch is worked on, and saying why nothing works on it: no executor."""

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

# How often the watch asks Spark, in seconds: far below the silence that counts as hung (liveness.py), and
# few enough calls into the JVM to cost nothing.
LOOK_SECONDS = 10.0

# How often the thread of a watch wakes up, in seconds, and how long the end of the work waits for a look of
# it that is under way: it asks a JVM, which may hang.
WAKE_SECONDS = 1.0
LAST_LOOK_SECONDS = 5.0

_NO_EXECUTOR = "TIDE-K8S-022"

log = structlog.get_logger()


class Work(NamedTuple):
    """What Spark is at.

    Args:
        stages: Numbers of the stages that run or wait for executors.
        ended_tasks: Tasks of theirs that have ended.
        executors: Executors beside the driver; None if the driver works alone.
    """

    stages: tuple[int, ...]
    ended_tasks: int
    executors: int | None


class SeeWork(Protocol):
    """Where the watch looks."""

    def __call__(self) -> Work:
        """What Spark is at now."""


def work_of(context: SparkContext) -> Work:
    """What the session's Spark is at."""
    tracker = context.statusTracker()
    stages = tuple(sorted(tracker.getActiveStageIds()))
    infos = (tracker.getStageInfo(stage) for stage in stages)
    ended = sum(info.numCompletedTasks + info.numFailedTasks for info in infos if info is not None)
    if context._jsc.sc().isLocal():
        return Work(stages, ended, None)
    # The driver is among them, too.
    return Work(stages, ended, context._jsc.sc().getExecutorMemoryStatus().size() - 1)


class TaskWatch:
    """Tells the reporter that tasks end, which is progress; Spark itself speaks only when a batch ends."""

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
        """Look, if the last look is long enough ago."""
        if self._clock() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        try:
            before, self._seen = self._seen, self._see()
        except Py4JError as error:
            # A watch stops no stream; a JVM that died is noticed by who asks for the query next.
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
    """Look from a thread of its own while the block works, in calls that return when Spark is done."""
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
    """TIDE-K8S-022: tasks wait, and no executor is there."""
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
