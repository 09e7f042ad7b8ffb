"""The trigger forms of this repository's DAG files over a small project: what no form has is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.fake_driver import ROOT
from tests.support.small_project import READINGS, STREAM, SmallProject
from tidemill.errors import UsageError

# DAGs with a custom form, each with a mistyped field and the intended field.
MISTYPED = [
    ("tidemill_backfill", "publsh", "publish"),
    ("stream__orders", "untill", "until"),
    ("shadow_run", "batch", "batches"),
    ("game_day", "pipelin", "pipeline"),
    ("checkpoint__rewind", "too", "to"),
]

FILLED_IN = {
    "tidemill_backfill": {
        "pipeline": "readings",
        "from": "2026-03-01T00:00:00Z",
        "to": "2026-03-02T00:00:00Z",
    },
    "stream__orders": {"action": "suspend"},
    "shadow_run": {"pipeline": "orders"},
    "checkpoint__rewind": {"pipeline": "orders", "reason": "wrong unit"},
}


@pytest.fixture
def project(bare_project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> SmallProject:
    monkeypatch.setenv("TIDEMILL_PROJECT", str(bare_project.folder))
    bare_project.declare("orders", STREAM)
    bare_project.declare("readings", READINGS + "run: {mode: incremental}\n")
    return bare_project


@pytest.fixture
def dags(project: SmallProject) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    assert project.folder.is_dir()
    # File by file: reading a folder warns of Airflow's own `.airflowignore` patterns.
    files = sorted((ROOT / "dags").glob("*.py"))
    return {dag_id: dag for file in files for dag_id, dag in DagBag(str(file)).dags.items()}


def files_of(project: SmallProject) -> list[Path]:
    return sorted(path for path in project.folder.rglob("*") if path.is_file())


def begin(dag: Any, conf: dict[str, Any]) -> None:
    """Run the first task of a run that was triggered with `conf`, as by the API."""
    run = SimpleNamespace(
        dag_id=dag.dag_id,
        run_id="manual-1",
        run_after=datetime(2026, 11, 20, tzinfo=UTC),
        triggering_user_name="ann",
        conf=conf,
    )
    (first,) = dag.roots
    first.execute({"dag_run": run, "params": {**dag.params.dump(), **conf}})


def test_every_form_has_a_case(dags: dict[str, Any]) -> None:
    with_form = {dag_id for dag_id, dag in dags.items() if dag.params}
    verbs = {dag_id for dag_id in with_form if dag_id.startswith("checkpoint__")}
    # One operation is enough here, because `tests/unit/control/test_verb_forms.py` tests the form of each.
    assert with_form - verbs == {dag_id for dag_id, *_ in MISTYPED} - verbs


@pytest.mark.parametrize(("dag_id", "mistyped", "meant"), MISTYPED)
def test_a_field_that_no_form_has_is_refused_with_the_near_one_and_touches_nothing(
    project: SmallProject, dags: dict[str, Any], dag_id: str, mistyped: str, meant: str
) -> None:
    before = files_of(project)
    with pytest.raises(UsageError) as caught:
        begin(dags[dag_id], {**FILLED_IN.get(dag_id, {}), mistyped: "later"})
    assert (caught.value.error_id, caught.value.facts["field"]) == ("TIDE-CTRL-050", f"'{mistyped}'")
    assert caught.value.fix == f"write `{meant}` instead"
    assert files_of(project) == before
