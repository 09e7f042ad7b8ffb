"""Executors scale with the lag, and scaling neither loses nor duplicates a row (row S38)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.cluster import uid_of, until
from tests.support.other_project import declared, with_declaration, with_run
from tests.support.platform import WINDOWS, Platform
from tidemill.airflow_names import STREAMS_DAG_ID
from tidemill.engine.kubernetes_conf import IDLE_SECONDS

# A size in values.yaml with one to three executors of one core each.
SIZE, MOST = "elastic", 3

# More events a second than one core keeps up with, so that tasks of four partitions wait for longer than the
# second after which Spark asks for more executors; they end with the first of these, or at this many.
PER_SECOND, BURST = 5_000.0, 150_000

# Seconds for executors to be asked for and to start.
ADDED_SECONDS = 300

# Seconds for the last of them to go, once it has nothing to do.
GONE_SECONDS = IDLE_SECONDS + 240


@contextmanager
def elastic(platform: Platform) -> Iterator[None]:
    """Run the stream with another size during a `with` block, without reconciliation."""
    declaration = with_run(declared(platform, WINDOWS), size=SIZE)
    project = with_declaration(platform, WINDOWS, declaration)
    platform.airflow.unpause(STREAMS_DAG_ID, is_paused=True)
    try:
        platform.tidemill("stop", WINDOWS, "--reason", "e2e")
        platform.tidemill(*project, "start", WINDOWS, "--reason", "e2e")
        yield
    finally:
        platform.tidemill("stop", WINDOWS, "--reason", "e2e")
        platform.tidemill("start", WINDOWS, "--reason", "e2e")
        platform.airflow.unpause(STREAMS_DAG_ID)


def executors(platform: Platform) -> set[str]:
    """Return the names of the running executors."""
    return {pod["metadata"]["name"] for pod in platform.executors(WINDOWS)}


# Two minutes of idleness, and a restart before and after it.
@pytest.mark.timeout(1_800)
def test_executors_are_added_as_lag_grows_and_go_when_it_is_gone(platform: Platform) -> None:
    platform.assert_exact()
    with elastic(platform):
        driver = platform.until_healthy(WINDOWS)
        (first,) = until(lambda: executors(platform), "an executor runs", ADDED_SECONDS)
        with platform.events_flow(PER_SECOND, BURST):
            many = until(
                lambda: found if len(found := executors(platform)) > 1 else None,
                "executors are added",
                ADDED_SECONDS,
            )
        assert many is not None
        assert len(many) <= MOST
        platform.assert_exact()
        until(lambda: len(executors(platform)) == 1, "those above the least go", GONE_SECONDS)
        # The remaining executors continue, and so does the driver that has lost some.
        platform.feed(500)
        platform.assert_exact()
        assert uid_of(platform.until_healthy(WINDOWS)) == uid_of(driver)
        assert first in many
    platform.until_healthy(WINDOWS)
