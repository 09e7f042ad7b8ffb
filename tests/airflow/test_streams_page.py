"""The Streams page's API, by Airflow's own login and roles."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT
from tests.support.grown_state import write_grown_state
from tests.support.measured_batches import write_measured
from tests.support.seen_pipelines import seen
from tests.support.small_project import INCREMENTAL, STREAM
from tests.support.streams_page import StreamsPage, streams_page
from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.doctor.examine import Advised
from tidemill.checkpoint.holds import Hold, drop_hold, take_hold
from tidemill.checkpoint.status import read_status
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.driver_command import DriverRun
from tidemill.spec.project import Environment, resolve_pipeline
from tidemill.storage.store import Store

STATIC = ROOT / "dags/tidemill_airflow/plugin/static"

# What only those may see who may see records.
OF_RECORDS = ("sample", "log", "quarantine/records")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamsPage]:
    with streams_page(tmp_path_factory.mktemp("page")) as page:
        project = page.project
        project.declare("orders")
        project.declare("daily", INCREMENTAL)
        project.declare("down")
        plane = project.plane()
        write_desired(plane.store, plane.layout, "down", Desired(state="stopped", by="tests", reason="quiet"))
        reconcile_streams(plane)
        eventually(
            lambda: (status := read_status(plane.store, plane.layout, "orders")) and status.batch_id == 0,
            "the stream commits",
        )
        page.look()
        yield page


def row(page: StreamsPage, name: str) -> dict[str, Any]:
    rows = {each["name"]: each for each in page.get("/api/pipelines").json()["pipelines"]}
    return dict(rows[name])


def test_everything_about_all_pipelines_comes_in_one_answer(page: StreamsPage) -> None:
    answer = page.get("/api/pipelines").json()
    assert [each["name"] for each in answer["pipelines"]] == ["daily", "down", "orders"]
    orders, down = row(page, "orders"), row(page, "down")
    assert (orders["state"], orders["health"], orders["owner"], orders["zone"]) == (
        "running",
        "good",
        "tests",
        "bronze",
    )
    assert (orders["batch_id"], orders["rate"], orders["dag_id"]) == (0, [1.5], "stream__orders")
    assert (down["state"], down["health"], down["reason"]) == ("stopped", "off", "stopped by tests: quiet")
    assert row(page, "daily")["state"] == "by schedule"


def test_a_held_stream_is_red_with_the_reason_and_its_fix_until_the_hold_is_gone(
    page: StreamsPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = page.project.plane()
    page.project.declare("held")
    hold = Hold(id="audit-1", by="alice", why="counting the till", to_do="tidemill checkpoint release held")
    take_hold(plane.store, plane.layout, "held", hold)
    page.look()
    held = row(page, "held")
    assert (held["state"], held["health"]) == ("held", "bad")
    assert "counting the till" in held["reason"]
    assert held["holds"][0]["fix"] == "tidemill checkpoint release held"
    assert (held["runbook"], held["runbook_url"]) == ("hold", "")
    for folder, url in (
        ("https://pages.example.com/", "https://pages.example.com/hold.md"),
        ("javascript:0", ""),
    ):
        monkeypatch.setenv("TIDEMILL_RUNBOOKS_URL", folder)
        assert row(page, "held")["runbook_url"] == url
    first = page.get("/api/pipelines/held").json()["actions"][0]
    assert (first["dag_id"], first["conf"]) == (
        "checkpoint__release",
        {"pipeline": "held", "hold": "audit-1"},
    )
    drop_hold(plane.store, plane.layout, "held", "audit-1")
    page.look()
    assert row(page, "held")["state"] == "to be started"


def test_a_look_finds_the_hold_on_a_running_stream(page: StreamsPage) -> None:
    plane = page.project.plane()
    take_hold(plane.store, plane.layout, "orders", Hold(id="audit-2", by="alice", why="counting the till"))
    page.look()
    orders = row(page, "orders")
    assert (orders["state"], orders["health"], orders["runbook"]) == ("running", "warn", "hold")
    assert [hold["id"] for hold in orders["holds"]] == ["audit-2"]
    drop_hold(plane.store, plane.layout, "orders", "audit-2")
    page.look()
    assert row(page, "orders")["health"] == "good"


def test_a_run_whose_driver_was_killed_is_red(page: StreamsPage) -> None:
    plane = page.project.plane()
    page.project.declare("nightly", INCREMENTAL)
    page.project.hold_back("nightly")
    digest = resolve_pipeline(plane.environment, "nightly").version_digest
    driver = plane.runtime.start(DriverRun("nightly", "incremental", "r1"), digest).driver
    eventually(lambda: plane.runtime.kill(driver), "the driver is killed")
    page.look()
    nightly = row(page, "nightly")
    assert (nightly["state"], nightly["health"]) == ("failed", "bad")
    assert nightly["reason"].startswith("its last run ended before its time: killed without a receipt")


@pytest.mark.parametrize(
    "path", ["/api/pipelines", "/api/graph", "/api/pipelines/orders", "/api/pipelines/orders/ledger"]
)
def test_nobody_sees_anything_without_a_login(page: StreamsPage, path: str) -> None:
    assert page.get(path, role=None).status_code == 401


def test_a_viewer_without_rights_gets_no_button_and_no_record(page: StreamsPage) -> None:
    view = page.get("/api/pipelines/orders", role="VIEWER").json()
    assert (view["actions"], view["may_see_records"]) == ([], False)
    refused = {part: page.get(f"/api/pipelines/orders/{part}", role="VIEWER") for part in OF_RECORDS}
    assert {part: answer.status_code for part, answer in refused.items()} == dict.fromkeys(OF_RECORDS, 403)
    assert page.get("/api/pipelines/orders/ledger", role="VIEWER").status_code == 200


def test_airflow_itself_refuses_a_viewers_run(page: StreamsPage) -> None:
    from airflow.api_fastapi.core_api.routes.public.dag_run import dag_run_router
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    airflow = FastAPI()
    airflow.include_router(dag_run_router)
    airflow.state.dag_bag = None
    post = partial(TestClient(airflow).post, "/dags/stream__orders/dagRuns", json={})
    codes = {role: post(headers=page.login(role)).status_code for role in ("VIEWER", "USER")}
    # 422: let in, and asked for the date that the body lacks.
    assert codes == {"VIEWER": 403, "USER": 422}
    assert post().status_code == 401


def test_the_api_describes_itself_and_the_readme_names_its_routes(page: StreamsPage) -> None:
    document = page.get("/api/openapi.json", role=None).json()
    text = (ROOT / "dags/README.md").read_text()
    begin = text.index("described by `/tidemill/api/openapi.json`:")
    overview, pipeline, *parts, graph = re.findall(
        r"`([^`]+)`", text[begin : text.index("States are", begin)]
    )[1:]
    one = f"{overview}/{{pipeline}}"
    assert pipeline == "…/pipelines/<name>"
    told = {overview, graph, one, *(f"{one}/{part}" for part in parts)}
    assert told == {f"/tidemill{path}" for path in document["paths"]}


def test_who_may_run_the_dag_gets_the_buttons_that_help_now(page: StreamsPage) -> None:
    labels = [each["label"] for each in page.get("/api/pipelines/orders", role="USER").json()["actions"]]
    assert labels[:3] == ["Restart", "Suspend", "Stop"]
    assert "Start" in [each["label"] for each in page.get("/api/pipelines/down").json()["actions"]]


@pytest.mark.parametrize("name", ["nothing", "..%2f..", "%3Cscript%3E", "a" * 10_000, "orders%00", "{{7*7}}"])
def test_a_name_that_is_no_pipeline_is_not_found(page: StreamsPage, name: str) -> None:
    assert page.get(f"/api/pipelines/{name}").status_code == 404
    assert page.get(f"/api/pipelines/{name}/log").status_code == 404


@pytest.mark.parametrize("table", ["../../etc/passwd", "bronze/other", "bronze/orders; DROP", "x" * 5000])
def test_only_a_table_of_the_pipeline_can_be_sampled(page: StreamsPage, table: str) -> None:
    answer = page._client.get(
        "/api/pipelines/orders/sample", params={"table": table}, headers=page.login("ADMIN")
    )
    assert answer.status_code == 404


def test_a_sample_has_the_newest_rows_and_a_plot(page: StreamsPage) -> None:
    rows = pa.table(
        {
            "at": [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)],
            "value": [1.0, 5.0],
            "who": ["a", "<b>"],
        }
    )
    deltalake.write_deltalake(page.project.environment.layout.table("bronze/orders"), rows)
    sample = page.get("/api/pipelines/orders/sample").json()
    assert [point["value"] for point in sample["points"]] == [1.0, 5.0]
    assert sample["records"]["columns"] == ["at", "value", "who"]
    assert sample["records"]["rows"][0][2] == "<b>"
    unknown = page.get("/api/pipelines/orders/sample?x=nothing")
    assert (unknown.status_code, unknown.json()["id"]) == (400, "TIDE-QUERY-005")


def test_the_log_of_the_driver_is_shown_without_secrets(page: StreamsPage) -> None:
    tail = page.get("/api/pipelines/orders/log").json()
    assert tail["lines"] == [f"fake driver {tail['run_id']}: run"]


def test_batches_are_kept_for_charts(page: StreamsPage) -> None:
    (point,) = page.get("/api/pipelines/orders/history").json()["points"]
    assert (point["batch_id"], point["processed_rate"], point["state_rows"]) == (0, 6.0, 7)


def test_a_pipeline_is_explained_in_sentences(page: StreamsPage) -> None:
    said = {
        each["heading"]: each["sentences"] for each in page.get("/api/pipelines/orders/explanation").json()
    }
    assert "Reads the source rate." in said["What it does"]
    assert said["How it stands"][0] == "Asked of it: running."
    assert list(said) == ["What it does", "How it stands", "What it waits for"]


def test_what_would_help_has_advice_for_the_pipeline_that_is_asked_for(page: StreamsPage) -> None:
    plane = page.project.plane()
    page.project.declare("slow", STREAM + "run: {trigger: 10 seconds}\n")
    read_or_create_current(plane.store, plane.layout, "slow")
    write_grown_state(Path(plane.layout.checkpoint("slow", "g0001")))
    write_measured(resolve_pipeline(plane.environment, "slow"), milliseconds=30_000)
    page.look()
    said = {each["heading"]: each["sentences"] for each in page.get("/api/pipelines/slow/explanation").json()}
    assert said["Where its time goes"][0] == "A typical batch takes 30 seconds for 500 rows."
    growth, late = said["What would help"]
    assert "TIDE-CKPT-055 slow: The state has grown all the time: there is no watermark" in growth
    assert "declare `event_time: {column: …, watermark: …}`" in growth
    assert "TIDE-TUNE-001 slow: " in late
    assert "raise `run.trigger`, to 45 seconds" in late


def test_the_graph_links_sources_pipelines_and_tables(page: StreamsPage) -> None:
    graph = page.get("/api/graph").json()
    links = {(edge["source"], edge["target"]) for edge in graph["edges"]}
    assert {("rate", "pipeline orders"), ("pipeline orders", "table bronze/orders")} <= links


def test_a_few_requests_wait_for_storage_and_the_others_are_told_at_once_so_airflow_keeps_its_threads(
    page: StreamsPage,
) -> None:
    from tidemill_airflow.plugin.storage_gate import READERS_AT_ONCE

    with ExitStack() as waiting:
        for _ in range(READERS_AT_ONCE):
            waiting.enter_context(page.app.state.gate.entered())
        refused = page.get("/api/pipelines/orders/checkpoints")
        assert (refused.status_code, refused.json()["detail"][:16]) == (503, "Storage is slow:")
        # Parts that need no storage still work.
        assert page.get("/api/pipelines/orders").status_code == 200
    assert page.get("/api/pipelines/orders/checkpoints").status_code == 200


def test_a_table_is_read_once_for_each_of_its_versions_whoever_asks(tmp_path: Path) -> None:
    from tidemill_airflow.plugin.kept_answers import KeptAnswers

    path, kept, reads = str(tmp_path / "table"), KeptAnswers(), []

    def rows() -> int:
        reads.append(1)
        return deltalake.DeltaTable(path).to_pyarrow_table().num_rows

    def asked() -> int:
        return kept.of(path, "rows", rows)

    for mode, expected in (("append", 1), ("append", 2), ("overwrite", 1)):
        deltalake.write_deltalake(path, pa.table({"a": [1]}), mode=mode)
        eventually(lambda expected=expected: asked() == expected, "the new version is read")
        assert (asked(), asked()) == (expected, expected)
    assert len(reads) == 3
    # A recreated table begins at version 0 again.
    kept, reads = KeptAnswers(), []
    for values in ([1], [1, 2, 3]):
        shutil.rmtree(path)
        deltalake.write_deltalake(path, pa.table({"a": values}))
        eventually(lambda values=values: asked() == len(values), "the new table is read")


def test_the_doctor_is_asked_once_for_each_batch_and_the_state_is_told_anew(
    page: StreamsPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemill_airflow.plugin import stored_parts
    from tidemill_airflow.plugin.kept_answers import KeptAnswers

    plane, kept, asked, real = page.project.plane(), KeptAnswers(), [], stored_parts.advice_for

    def counted(store: Store, environment: Environment, name: str) -> Advised:
        asked.append(name)
        return real(store, environment, name)

    monkeypatch.setattr(stored_parts, "advice_for", counted)

    def told(**more: Any) -> str:
        state = seen(said={"generation": "g0001", "batch_id": 7, **more}).state
        return str(stored_parts.explanation_of(plane, state, kept))

    first = told(error={"id": "TIDE-X-001", "problem": "No disk."})
    assert ("TIDE-X-001" in first, "TIDE-X-001" in told()) == (True, False)
    assert asked == ["orders"]
    for count, newer in enumerate(({"batch_id": 8}, {"run_id": "r2"}, {"generation": "g0002"}), 2):
        eventually(
            lambda newer=newer, count=count: told(**newer) and len(asked) == count, "it is asked again"
        )
        told(**newer)
        assert len(asked) == count


def test_while_a_table_is_read_for_one_others_get_the_answer_before_or_503(tmp_path: Path) -> None:
    from fastapi import HTTPException

    from tidemill_airflow.plugin.kept_answers import KeptAnswers

    kept, path = KeptAnswers(patience=0.01), str(tmp_path / "none")
    assert kept.of(path, "known", lambda: "before") == "before"

    def slow() -> str:
        with ThreadPoolExecutor(1) as other:
            assert other.submit(kept.of, path, "known", slow).result() == "before"
            with pytest.raises(HTTPException) as refused:
                other.submit(kept.of, path, "unknown", slow).result()
        assert refused.value.status_code == 503
        return "read"

    assert kept.of(path, "slow", slow) == "read"


def test_reasons_are_counted_over_all_files_of_the_quarantine(tmp_path: Path) -> None:
    from tidemill_airflow.plugin.record_parts import reasons_of

    assert reasons_of(str(tmp_path / "none")) == []
    path = str(tmp_path / "quarantine")
    for day, reasons in ((2, ["late", "transform_failed: a"]), (1, ["late", "transform_failed: b", "bad"])):
        at = [datetime(2026, 1, day, tzinfo=UTC)] * len(reasons)
        deltalake.write_deltalake(path, pa.table({"reason": reasons, "quarantined_at": at}), mode="append")
    days = [(each.reason, each.records, each.newest and each.newest.day) for each in reasons_of(path)]
    assert days == [("late", 2, 2), ("transform_failed", 2, 2), ("bad", 1, 1)]


def test_the_buttons_of_a_second_environment_are_for_its_own_dags(page: StreamsPage) -> None:
    from tidemill_airflow.place import Place
    from tidemill_airflow.plugin.access import dag_of
    from tidemill_airflow.plugin.actions import actions_of
    from tidemill_airflow.plugin.overview import row_of

    place = Place("project", "test", beside="test")
    look = page.snapshot.newest()
    ids = {action.dag_id for seen in look.seen.values() for action in actions_of(seen, place, lambda _: True)}
    assert {"test.stream__orders", "test.incremental__daily", "test.checkpoint__reset"} <= ids
    assert all(dag_id.startswith("test.") for dag_id in ids)
    assert row_of(look.seen["daily"], place).dag_id == "test.incremental__daily"
    assert dag_of(place, "orders", "stream") == "test.stream__orders"


def test_a_wrong_environment_file_is_on_the_page_until_it_is_mended_and_stops_nothing(
    page: StreamsPage, tmp_path: Path
) -> None:
    from tidemill_airflow.place import place_of
    from tidemill_airflow.plugin.snapshot import Snapshot

    (tmp_path / "TIDEMILL_ENV").write_text("two words")
    project = {"TIDEMILL_PROJECT": str(page.project.folder)}
    snapshot = Snapshot(lambda: place_of(str(tmp_path / "dags.py"), project), lambda _: page.project.plane())
    assert "TIDE-CTRL-073" in snapshot.refresh().problem
    (tmp_path / "TIDEMILL_ENV").write_text("test")
    look = snapshot.refresh()
    assert (look.problem, look.place.beside, "orders" in look.seen) == ("", "test", True)


def test_a_page_that_cannot_be_made_says_so_and_airflow_starts(
    page: StreamsPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastapi.testclient import TestClient

    from tidemill_airflow.plugin.streams_plugin import StreamsPlugin

    # Let the import fail, as after an Airflow upgrade that moves a module which the page imports.
    monkeypatch.setitem(sys.modules, "tidemill_airflow.plugin.app", None)
    (found,) = StreamsPlugin().fastapi_apps
    for path in ("/", "/api/pipelines"):
        answer = TestClient(found["app"]).get(path)
        assert (answer.status_code, "off (ModuleNotFoundError)" in answer.text) == (503, True)


def test_nothing_is_loaded_from_elsewhere_and_the_page_can_be_framed_by_airflow_alone(
    page: StreamsPage,
) -> None:
    answer = page.get("/", role=None)
    policy = answer.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy
    sources = [file.read_text() for file in STATIC.rglob("*") if file.suffix in (".html", ".js", ".css")]
    assert not [text for text in sources if "innerHTML" in text and "uPlot.js" not in text[:200]]


def test_the_vendored_files_are_those_that_were_published() -> None:
    lines = (STATIC / "vendor/SHA256SUMS").read_text().splitlines()
    told = {name: digest for digest, name in (line.split() for line in lines)}
    assert told == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (STATIC / "vendor").glob("uPlot*")
    }


def test_airflow_finds_the_plugin_and_its_api_server_never_loads_spark(tmp_path: Path) -> None:
    (found,) = [each for each in entry_points(group="airflow.plugins") if each.name == "tidemill"]
    assert found.value == "tidemill_airflow.plugin.streams_plugin:StreamsPlugin"
    program = (
        "import sys; from tidemill_airflow.plugin.streams_plugin import StreamsPlugin; "
        "assert 'fastapi' not in sys.modules or 'tidemill_airflow.plugin.app' not in sys.modules; "
        "assert len(StreamsPlugin().fastapi_apps) == 1; "
        "assert not [name for name in sys.modules if name.startswith(('pyspark', 'py4j'))]"
    )
    home = {"AIRFLOW_HOME": str(tmp_path), "PATH": ""}
    subprocess.run([sys.executable, "-c", program], check=True, env=home)


HUB = """
description: A hub.
owner: tests
source:
  eventhubs: {namespace: plant, hub: readings, auth: {connection_string: hub-connection}, tier: standard}
sinks:
  - delta: {table: bronze/%(name)s}
run: {mode: stream, trigger: 1 second}
"""


def test_no_answer_shows_a_part_of_a_hubs_secret(page: StreamsPage, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "Endpoint=sb://plant/;SharedAccessKeyName=n;SharedAccessKey=canary-key"
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", key)
    page.project.declare("secretive", HUB)
    plane = page.project.plane()
    reconcile_streams(plane)
    eventually(
        lambda: (status := read_status(plane.store, plane.layout, "secretive")) and status.batch_id == 0,
        "the stream commits",
    )
    page.look()
    parts = ("", "/explanation", "/ledger", "/log", "/checkpoints", "/history")
    paths = ["/api/pipelines", "/api/graph", *(f"/api/pipelines/secretive{part}" for part in parts)]
    shown = {path: page.get(path) for path in paths}
    assert {path: answer.status_code for path, answer in shown.items()} == dict.fromkeys(paths, 200)
    assert "secretive" in shown["/api/pipelines"].text
    assert [path for path, answer in shown.items() if "canary" in answer.text] == []
