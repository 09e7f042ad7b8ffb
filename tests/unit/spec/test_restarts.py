"""`restarts` of an environment: today's bounds by default; bounds that bound nothing are refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.conf_project import ENVIRONMENT, ConfProject
from tidemill.errors import SpecError
from tidemill.spec.restarts import RestartPolicy


def refused(project: ConfProject, restarts: str) -> SpecError:
    project.write("conf/environments/local.yaml", f"{ENVIRONMENT}restarts: {restarts}\n")
    with pytest.raises(SpecError) as caught:
        project.load()
    return caught.value


def test_an_environment_says_how_drivers_are_restarted_and_no_stream_is_restarted_for_it(
    project: ConfProject,
) -> None:
    assert project.load().spec.restarts == RestartPolicy()
    usual = project.resolve().definition_digest
    restarts = "{first_delay: 1 minute, longest_delay: 30m, window: 1 day, budget: 3, healthy_after: 1h}"
    project.write("conf/environments/local.yaml", f"{ENVIRONMENT}restarts: {restarts}\n")
    policy = project.load().spec.restarts
    assert (policy.first_delay, policy.longest_delay) == (timedelta(minutes=1), timedelta(minutes=30))
    assert (policy.window, policy.budget, policy.fruitless_limit) == (timedelta(days=1), 3, 4)
    assert project.resolve().definition_digest == usual


def test_the_defaults_are_written_in_units_that_people_read() -> None:
    assert RestartPolicy().model_dump(mode="json") == {
        "first_delay": "10 seconds",
        "longest_delay": "5 minutes",
        "window": "1 hour",
        "budget": 6,
        "healthy_after": "10 minutes",
        "fruitless_limit": 4,
    }


@pytest.mark.parametrize(
    ("restarts", "key", "says"),
    [
        ("{budgte: 3}", "restarts.budgte", "did you mean `budget`?"),
        ("{first_delay: 10}", "restarts.first_delay", "a number and a unit"),
        ("{first_delay: 0 seconds}", "restarts.first_delay", "expected 1 second to 1 hour"),
        ("{longest_delay: 2 days}", "restarts.longest_delay", "expected 1 second to 1 hour"),
        ("{window: 59 seconds}", "restarts.window", "expected 1 minute to 1 day"),
        ("{healthy_after: 2 weeks}", "restarts.healthy_after", "expected 1 minute to 1 day"),
        ("{budget: 0}", "restarts.budget", "greater than 0"),
        ("{budget: true}", "restarts.budget", "a whole number"),
        ("{budget: 51}", "restarts.budget", "50"),
        ("{fruitless_limit: 51}", "restarts.fruitless_limit", "50"),
        ("{first_delay: 6 minutes}", "restarts", "`first_delay` is longer than `longest_delay`"),
        ("{budget: 6, window: 5 minutes}", "restarts", "would never be spent"),
        ("5", "restarts", "expected"),
    ],
)
def test_a_bound_that_bounds_nothing_or_everything_is_refused(
    project: ConfProject, restarts: str, key: str, says: str
) -> None:
    error = refused(project, restarts)
    assert error.error_id == "TIDE-SPEC-003"
    assert error.facts["key"] == key
    assert says in error.problem


def test_the_budget_counts_waits_as_visits_see_them() -> None:
    # Waits of a second, but one visit a minute.
    with pytest.raises(ValueError, match="take 9 minutes, the window is 5 minutes"):
        RestartPolicy(first_delay="1 second", longest_delay="1 second", window="5 minutes", budget=10)
