"""A stream in a thread of the test: run it until a condition holds, then drain it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from tests.support.eventually import eventually
from tests.support.lake import LakePipeline
from tidemill.engine.drain import Drain
from tidemill.engine.reporter import Reporter
from tidemill.engine.streaming import Ending

# Seconds for a stream in a warm session to write what a test sent.
TIMEOUT_SECONDS = 120.0


class RunningStream:
    """A pipeline that runs as a stream while the test runs."""

    def __init__(self, pipeline: LakePipeline) -> None:
        self._pipeline = pipeline
        self._drain = Drain()
        self._ended: list[tuple[Ending, Reporter]] = []
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_until(self, condition: Callable[[], bool], expectation: str) -> None:
        """Wait for what the stream should do; fails at once if it ends before."""
        # Check first if it has ended, so that the look sees everything that it did before.
        seen = eventually(lambda: self._look(condition), expectation, TIMEOUT_SECONDS)
        if self._failed:
            raise self._failed[0]
        assert seen == "seen", expectation

    def _look(self, condition: Callable[[], bool]) -> Literal["seen", "ended", ""]:
        has_ended = not self._thread.is_alive()
        return "seen" if condition() else "ended" if has_ended else ""

    def drain(self) -> Reporter:
        """Stop after the running batch; what the driver would have reported."""
        self._drain.request()
        self._thread.join()
        if self._failed:
            raise self._failed[0]
        ((ending, reporter),) = self._ended
        assert ending == "drained"
        return reporter

    def end(self) -> None:
        """Stop, whatever came of it."""
        self._drain.request()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._ended.append(self._pipeline.run_stream(self._drain))
        except BaseException as error:  # noqa: BLE001  # raised again in the test's own thread
            self._failed.append(error)


@contextmanager
def running_stream(pipeline: LakePipeline) -> Iterator[RunningStream]:
    """Yield a stream during a `with` block."""
    stream = RunningStream(pipeline)
    try:
        yield stream
    finally:
        stream.end()
