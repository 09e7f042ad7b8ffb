"""A cluster that rejects a driver's objects: it is retried without a limit, shown red, and never a crash."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.support.api_server import ApiServerInMemory
from tests.support.cluster_project import Clock, ClusterProject
from tests.support.drivers_as_pods import POD
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.visit import Outcome
from tidemill.control.kubernetes.api import SERVICES, STATEFUL_SETS, Kind
from tidemill.control.plane import ControlPlane
from tidemill.errors import SpecError, UnavailableError
from tidemill.storage.store import Store

HOUR = timedelta(hours=1)


@pytest.fixture
def clock(api: ApiServerInMemory) -> Clock:
    """Return a clock that begins an hour ago, so that a test can move it by an hour."""
    clock = Clock(datetime.now(UTC) - HOUR)
    api.clock = clock
    return clock


@pytest.fixture
def plane(
    cluster_project: ClusterProject, api: ApiServerInMemory, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> ControlPlane:
    cluster_project.on_a_volume(monkeypatch)
    environment = cluster_project.environment
    runtime = cluster_project.runtime(api, clock=clock)
    return ControlPlane(environment, Store(environment.layout.root), runtime)


def rejecting(kind: Kind, error: Exception) -> Callable[[str, Kind], None]:
    """Return a webhook that rejects every object of a kind."""

    def before(verb: str, its: Kind) -> None:
        if its == kind and verb in ("create", "replace", "apply"):
            raise error

    return before


def visit(plane: ControlPlane, clock: Clock) -> Outcome:
    """Return the outcome of a visit; the next visit is a minute later."""
    (outcome,) = reconcile_streams(plane, clock=clock)
    clock.pass_by(60)
    return outcome


@pytest.mark.parametrize("kind", [STATEFUL_SETS, SERVICES], ids=["statefulset", "service"])
@pytest.mark.parametrize(
    "error",
    [
        SpecError("TIDE-K8S-004", "Refused.", runbook="kubernetes-object-refused"),
        UnavailableError("TIDE-K8S-011", "Rejected.", runbook="kubernetes-object-refused"),
        UnavailableError("TIDE-K8S-001", "Away.", runbook="kubernetes-unavailable"),
    ],
    ids=lambda error: error.error_id,
)
def test_a_webhook_that_rejects_a_driver_for_half_an_hour_holds_nothing_and_is_red_with_its_own_page(
    plane: ControlPlane,
    api: ApiServerInMemory,
    clock: Clock,
    kind: Kind,
    error: SpecError | UnavailableError,
) -> None:
    unhindered = api.before
    api.before = rejecting(kind, error)
    outcomes = [visit(plane, clock) for _ in range(30)]
    assert {outcome.decision.action for outcome in outcomes} == {"failed", "wait"}
    assert {outcome.decision.runbook for outcome in outcomes} == {error.runbook}
    assert all(outcome.decision.needs_human for outcome in outcomes)
    assert all(error.error_id in outcome.decision.reason for outcome in outcomes)
    # Ever less often: after 10, 20, 40 … 300 s.
    tries = [number for number, outcome in enumerate(outcomes) if outcome.decision.action == "failed"]
    assert tries[:3] == [0, 1, 2]
    assert max(later - earlier for earlier, later in pairwise(tries)) == 5

    api.before = unhindered
    later = [visit(plane, clock) for _ in range(6)]
    assert "start" in {outcome.decision.action for outcome in later}
    assert not later[-1].decision.needs_human
    api.settle()
    assert api.running_pods == [POD]


def test_a_webhook_that_rejects_pods_for_half_an_hour_is_told_and_no_crash(
    plane: ControlPlane, api: ApiServerInMemory, clock: Clock
) -> None:
    said = 'admission webhook "policy.example.com" denied the request'
    outcomes = []
    for _ in range(30):
        outcomes.append(visit(plane, clock))
        # Message of the StatefulSet's controller at each attempt.
        api.warn("tidemill-orders", "FailedCreate", said)
    assert [outcome.decision.action for outcome in outcomes[:6]] == ["start", *["leave"] * 5]
    assert {outcome.decision.action for outcome in outcomes[6:]} == {"failed"}
    assert {outcome.decision.runbook for outcome in outcomes[6:]} == {"kubernetes-object-refused"}
    assert said in outcomes[-1].decision.reason
    assert plane.history("orders").read() == []
    api.settle()
    outcome = visit(plane, clock)
    assert (outcome.decision.action, outcome.decision.needs_human) == ("leave", False)
