"""Timeouts of goals."""

from __future__ import annotations

from datetime import timedelta

from tests.support.small_project import ENVIRONMENT, SmallProject
from tidemill.control.ask.goal import Goal


def test_a_stop_is_waited_for_longer_than_the_grace_period(project: SmallProject) -> None:
    stopped = Goal(pipeline="orders", kind="stopped")
    assert stopped.patience(project.plane()) == timedelta(minutes=5)
    project.environ(ENVIRONMENT + "grace_period: 30 minutes\n")
    assert stopped.patience(project.plane()) == timedelta(minutes=33)


def test_nobody_waits_for_ever_for_a_first_batch_but_for_a_run_as_long_as_it_takes(
    project: SmallProject,
) -> None:
    plane = project.plane()
    assert Goal(pipeline="orders", kind="progress").patience(plane) == timedelta(minutes=10)
    assert Goal(pipeline="daily", kind="finished").patience(plane) is None
