"""Links of a task in Airflow's UI: only those that lead somewhere, and only to web addresses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

DEPLOYED = {
    "TIDEMILL_RUNBOOKS_URL": "https://pages.example.com/runbooks/",
    "TIDEMILL_LOGS_URL": "https://logs.example.com/?q={pipeline}",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set AIRFLOW_HOME, because Airflow creates this folder at its import."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


def addresses(operator: Any, ti: Any = None) -> dict[str, str]:
    from tidemill_airflow.links import links

    return {link.name: link.get_link(operator, ti_key=ti) for link in links(DEPLOYED)}


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in DEPLOYED.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("deployed")
def test_a_task_leads_to_its_page_its_pipeline_and_the_log() -> None:
    own = SimpleNamespace(pipeline="orders", runbook="hold")
    assert addresses(own) == {
        "Runbook": "https://pages.example.com/runbooks/hold.md",
        "Driver log": "https://logs.example.com/?q=orders",
        "Streams page": "/tidemill/#/pipelines/orders",
    }


@pytest.mark.usefixtures("deployed")
def test_the_pipeline_is_that_of_the_task_of_its_goal_or_of_the_form() -> None:
    from tidemill_airflow.links import pipeline_of

    form = SimpleNamespace(get_template_context=lambda: {"params": {"pipeline": "visits"}})
    assert pipeline_of(SimpleNamespace(goal={"pipeline": "orders"}), None) == "orders"  # type: ignore[arg-type]
    assert pipeline_of(SimpleNamespace(), form) == "visits"  # type: ignore[arg-type]
    assert addresses(SimpleNamespace(pipeline='x"/../<a>', runbook="../x"))["Streams page"] == (
        "/tidemill/#/pipelines/x%22%2F..%2F%3Ca%3E"
    )
    assert addresses(SimpleNamespace(), SimpleNamespace()) == dict.fromkeys(
        ["Runbook", "Driver log", "Streams page"], ""
    )


def test_a_link_that_would_lead_nowhere_is_left_out() -> None:
    from tidemill_airflow.links import links

    assert [link.name for link in links({})] == ["Streams page"]
    assert [link.name for link in links({"TIDEMILL_LOGS_URL": "javascript:alert(1)"})] == ["Streams page"]


def test_the_page_is_below_the_address_of_airflow_and_of_one_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tidemill_airflow.place import Place

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://data.example.com/airflow/")
    own = SimpleNamespace(pipeline="orders", place=Place("/opt/tidemill", "prod"))
    assert addresses(own)["Streams page"] == "/airflow/tidemill/#/pipelines/orders"
    beside = SimpleNamespace(pipeline="orders", place=Place("/opt/tidemill", "test", "test"))
    assert addresses(beside)["Streams page"] == ""


def test_every_runbook_that_a_task_names_is_a_page() -> None:
    from tests.support.fake_driver import ROOT
    from tidemill.control.procedures.verb_forms import FORMS
    from tidemill_airflow import bounded_operators, stream_operators

    operators = [
        *(bounded_operators.IncrementalRun, bounded_operators.BackfillPlan, bounded_operators.BackfillRun),
        *(stream_operators.StreamAction, stream_operators.ProveStream),
    ]
    named = {operator.runbook for operator in operators} | {form.page for form in FORMS.values()}
    assert named <= {page.stem for page in (ROOT / "dags" / "runbooks").glob("*.md")}
