"""Pins every name and path rule: stored data, dashboards and access rules depend on them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemill import airflow_names, names
from tidemill.errors import SpecError
from tidemill.names import Layout, check_pipeline_name

LAYOUT = Layout("/lake")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (LAYOUT.table("silver/orders"), "/lake/tables/silver/orders"),
        (LAYOUT.quarantine("orders"), "/lake/quarantine/orders"),
        (LAYOUT.late("orders"), "/lake/late/orders"),
        (LAYOUT.states, "/lake/state"),
        (LAYOUT.state("orders"), "/lake/state/orders"),
        (LAYOUT.checkpoint("orders", "g0001"), "/lake/state/orders/g0001"),
        (LAYOUT.current("orders"), "/lake/state/orders/current"),
        (LAYOUT.holds("orders"), "/lake/state/orders/holds"),
        (LAYOUT.journal("orders"), "/lake/state/orders/journal"),
        (LAYOUT.backups("orders"), "/lake/state/orders/backups"),
        (LAYOUT.trash("orders"), "/lake/state/orders/trash"),
        (LAYOUT.control, "/lake/control.json"),
        (LAYOUT.reconciliation, "/lake/reconciliation.json"),
        (LAYOUT.waiting_tasks, "/lake/control/waiting"),
        (LAYOUT.waiting_task("orders", "run-1"), "/lake/control/waiting/orders.run-1.json"),
        (LAYOUT.untold_runs("run-1"), "/lake/control/untold/run-1.json"),
        (LAYOUT.audit, "/lake/audit"),
        (LAYOUT.status("orders"), "/lake/state/orders/status.json"),
        (LAYOUT.query_report("orders"), "/lake/state/orders/query.json"),
        (LAYOUT.desired("orders"), "/lake/state/orders/desired.json"),
        (LAYOUT.epochs("orders"), "/lake/state/orders/epochs"),
        (LAYOUT.source_schemas("orders", "source"), "/lake/state/orders/schemas/source"),
        (LAYOUT.deleted_files("orders", "source"), "/lake/state/orders/deleted_files/source"),
        (LAYOUT.poison("orders", "1-a"), "/lake/state/orders/poison/1-a"),
        (LAYOUT.receipts("orders"), "/lake/state/orders/receipts"),
        (LAYOUT.parts("orders"), "/lake/state/orders/parts"),
        (LAYOUT.backfill("orders", "1f2e"), "/lake/backfills/orders-1f2e"),
        (LAYOUT.backfill_plan("orders", "1f2e"), "/lake/backfills/orders-1f2e/plan.json"),
        (LAYOUT.backfill_status("orders", "1f2e"), "/lake/backfills/orders-1f2e/status.json"),
        (LAYOUT.backfill_downstream("orders", "1f2e"), "/lake/backfills/orders-1f2e/downstream.json"),
        (LAYOUT.backfill_request("orders", "1f2e"), "/lake/backfills/orders-1f2e/publish.json"),
        (
            LAYOUT.staging("orders", "1f2e", "20260301T").table("bronze/orders"),
            "/lake/backfills/orders-1f2e/staged/20260301T/tables/bronze/orders",
        ),
        (
            LAYOUT.staging("orders", "1f2e", "20260301T").leaving("late", "orders"),
            "/lake/backfills/orders-1f2e/staged/20260301T/leaving/late/orders",
        ),
        (
            LAYOUT.registered_schemas("orders", "http://localhost:8081"),
            "/lake/state/orders/schemas/b213eceaa0ae5845",
        ),
        (LAYOUT.meanings("orders", "1f2e"), "/lake/state/orders/meanings/1f2e.json"),
        (LAYOUT.row_origin("orders", "1f2e"), "/lake/state/orders/origins/1f2e.json"),
        (LAYOUT.stop_note("orders", "run-1"), "/lake/state/orders/stops/run-1.json"),
        (names.transaction_id("orders", "g0001", "bronze/orders"), "orders:g0001:bronze/orders"),
        (names.query_name("orders"), "orders"),
        (names.consumer_group_prefix("orders"), "tidemill-orders"),
        (airflow_names.stream_dag_id("orders"), "stream__orders"),
        (airflow_names.incremental_dag_id("orders"), "incremental__orders"),
        (airflow_names.checkpoint_dag_id("rewind"), "checkpoint__rewind"),
        (airflow_names.asset_uri("silver/orders"), "tidemill://tables/silver/orders"),
        (names.kubernetes_name("iot_events"), "tidemill-iot-events"),
        (names.kubernetes_name("iot_events", "backfill"), "tidemill-iot-events.backfill"),
        (names.kubernetes_job_name("iot_events", "run-1"), "tidemill-iot-events-4e65d3fb"),
        (airflow_names.STREAMS_DAG_ID, "tidemill_streams"),
        (airflow_names.streams_asset_uri(), "tidemill://streams"),
        (airflow_names.streams_asset_uri("test"), "tidemill://test/streams"),
        (airflow_names.asset_uri("silver/orders", "test"), "tidemill://test/tables/silver/orders"),
        (airflow_names.name_beside("tidemill_streams"), "tidemill_streams"),
        (airflow_names.name_beside("tidemill_streams", "test"), "test.tidemill_streams"),
        (airflow_names.STREAM_ASSETS_DAG_ID, "stream_assets"),
        (airflow_names.STREAMS_PAGE, "/tidemill/"),
        (airflow_names.streams_page_path("orders"), "/tidemill/#/pipelines/orders"),
        (airflow_names.DAG_RUN_VARIABLE, "TIDEMILL_DAG_RUN"),
        (airflow_names.BACKFILL_DAG_ID, "tidemill_backfill"),
        (airflow_names.CHECKPOINT_HYGIENE_DAG_ID, "checkpoint_hygiene"),
        (airflow_names.TABLE_MAINTENANCE_DAG_ID, "table_maintenance"),
        (airflow_names.GAME_DAY_DAG_ID, "game_day"),
        (airflow_names.SHADOW_RUN_DAG_ID, "shadow_run"),
        (names.GAME_DAYS_TABLE, "platform/game_days"),
        (names.FIRST_GENERATION, "g0001"),
        (names.QUARANTINE_OUTPUT, "quarantine"),
        (names.LATE_OUTPUT, "late"),
    ],
)
def test_a_stored_name_never_changes(made: str, expected: str) -> None:
    assert made == expected


@pytest.mark.parametrize("name", ["a", "orders", "orders_2", "a" * 40])
def test_a_usable_pipeline_name_is_returned(name: str) -> None:
    assert check_pipeline_name(name) == name


@given(st.text(max_size=60))
@example("orders\n")
@example("..")
@example("a" * 41)
@example("orders/../x")
@example("\uff2f\uff32\uff24\uff25\uff32")
@example("straße")
def test_only_names_that_are_safe_everywhere_are_accepted(name: str) -> None:
    safe = re.fullmatch(r"[a-z][a-z0-9_]{0,39}\Z", name) is not None and name.isascii()
    if safe:
        assert check_pipeline_name(name) == name
    else:
        with pytest.raises(SpecError) as caught:
            check_pipeline_name(name)
        assert caught.value.error_id == "TIDE-SPEC-010"
        assert str(caught.value.facts["name"]).isprintable()


def test_a_name_that_no_object_on_kubernetes_can_have_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        names.kubernetes_name("orders_")
    assert caught.value.error_id == "TIDE-SPEC-041"


@given(st.from_regex(r"[a-z][a-z0-9_]{0,38}[a-z0-9]", fullmatch=True))
def test_every_other_name_fits_kubernetes(name: str) -> None:
    # 63 is a label's limit; a StatefulSet's pods carry a label with its name and eleven more.
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?", names.kubernetes_name(name))
    assert len(names.kubernetes_job_name(name, "x")) <= 63


def test_a_long_hostile_name_does_not_flood_the_error() -> None:
    with pytest.raises(SpecError) as caught:
        check_pipeline_name("\x1b[2J" * 10_000)
    assert len(str(caught.value)) < 1_000
