"""The Streams page's own warnings: it is outdated, it cannot look, or reconciliation does not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.fake_driver import ROOT
from tests.support.seen_pipelines import NOW, ago
from tests.support.streams_page import StreamsPage, streams_page
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.control.decide.reconcile_record import ReconcileRecord, keep_record


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set AIRFLOW_HOME, because Airflow creates this folder at its import."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamsPage]:
    with streams_page(tmp_path_factory.mktemp("page")) as page:
        page.project.declare("orders")
        yield page


def reconciled(page: StreamsPage, **before: float) -> None:
    """Record a reconciliation that ended this long ago."""
    plane, at = page.project.plane(), datetime.now(UTC) - timedelta(**before)
    keep_record(plane.store, plane.layout, ReconcileRecord(began_at=at, ended_at=at))


def warned(page: StreamsPage) -> Any:
    """Look again, and return the warning for the whole environment."""
    page.look()
    return page.get("/api/pipelines").json()["warning"]


def test_a_reconciliation_is_too_old_when_its_alert_says_so() -> None:
    from tidemill_airflow.plugin.outdated import RECONCILED_WITHIN, SILENT_PAGE, reconcile_warning

    rules = yaml.safe_load((ROOT / "helm/tidemill/files/rules/control-plane.yaml").read_text())
    alerts = {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}
    alert = alerts["TidemillReconcileTooOld"]
    assert alert["expr"].endswith(f" > {RECONCILED_WITHIN.total_seconds():.0f}")
    assert alert["annotations"]["runbook"] == SILENT_PAGE
    assert reconcile_warning(NOW, ago(minutes=10), streams_wanted=True) is None
    late = reconcile_warning(NOW, ago(minutes=11), streams_wanted=False)
    assert late is not None
    assert late.words == (
        "No reconciliation has ended for 11 min. Streams run on, but none is started or stopped."
    )
    assert reconcile_warning(None, None, streams_wanted=True) is None


def test_the_overview_says_that_nobody_reconciles_the_streams_that_are_wanted(page: StreamsPage) -> None:
    plane = page.project.plane()
    never = warned(page)
    assert never["words"].startswith("Streams are wanted, and no reconciliation is known")
    assert never["runbook"] == "control-plane-silent"
    write_desired(plane.store, plane.layout, "orders", Desired(state="stopped", by="tests", reason="quiet"))
    assert warned(page) is None
    reconciled(page, minutes=25)
    assert warned(page)["words"].startswith("No reconciliation has ended for 25 min.")
    reconciled(page, seconds=5)
    assert warned(page) is None


@pytest.mark.parametrize("damaged", [b"{", b"[]", b'{"v": 1}'])
def test_a_damaged_record_of_the_reconciliation_breaks_no_look(page: StreamsPage, damaged: bytes) -> None:
    reconciled(page, seconds=5)
    assert warned(page) is None
    plane = page.project.plane()
    plane.store.write(plane.layout.reconciliation, damaged)
    assert warned(page) is None
    assert [each["name"] for each in page.get("/api/pipelines").json()["pipelines"]] == ["orders"]


VIEWS = ("/api/pipelines", "/api/pipelines/orders", "/api/graph")


def test_what_is_older_than_two_minutes_is_told_as_old() -> None:
    from tidemill_airflow.plugin.outdated import problem_of

    assert problem_of(None, "", NOW) == ""
    assert problem_of(ago(minutes=2), "", NOW) == ""
    assert problem_of(ago(minutes=3), "", NOW) == "What is shown here is 3 min old."
    assert problem_of(ago(minutes=3), "no storage", NOW) == "no storage\nWhat is shown here is 3 min old."


def test_each_view_says_when_it_was_looked_at_and_why_that_may_no_longer_be_so(
    page: StreamsPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[tuple[str, str]]:
        return [(answer["at"], answer["problem"]) for answer in (page.get(path).json() for path in VIEWS)]

    page.look()
    look = page.snapshot.newest()
    assert look.at is not None
    at = look.at.isoformat().replace("+00:00", "Z")
    assert told() == [(at, "")] * len(VIEWS)
    old = replace(look, at=look.at - timedelta(minutes=5), problem="storage is away")
    monkeypatch.setattr(type(page.snapshot), "newest", lambda _: old)
    assert {problem for _, problem in told()} == {"storage is away\nWhat is shown here is 5 min old."}
