"""The Streams page of the chart's own API server: what it shows, to whom, and that it can change nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cluster import RefusedError, until
from tests.support.platform import BRONZE, TABLES, WINDOWS, Platform
from tests.support.release import NAME
from tidemill.names import kubernetes_name

PAGE = "/tidemill/api"

# See dags/README.md: Airflow's own commands only grant permissions that already exist.
GRANT = """
import sys
from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

with get_application_builder() as builder:
    permission = builder.sm.create_permission("can_read", "Tidemill records")
    builder.sm.add_permission_to_role(builder.sm.find_role(sys.argv[1]), permission)
"""

# Seconds for the page's next look. It looks every three seconds while a user has it open, but later on busy
# cores.
LOOK_SECONDS = 120


def answer(platform: Platform, path: str) -> Any:
    code, text = platform.airflow.page(f"{PAGE}{path}")
    assert code == 200, f"{path}: {code} {text}"
    return json.loads(text)


def overview(platform: Platform) -> dict[str, dict[str, Any]]:
    """Return all pipelines by name, after a refresh without a problem."""

    def looked() -> Any:
        found = answer(platform, "/pipelines")
        assert found["environment"] == "evaluation"
        return found if found["at"] and not found["problem"] else None

    return {each["name"]: each for each in until(looked, "the page has looked", LOOK_SECONDS)["pipelines"]}


@pytest.mark.core
def test_the_streams_page_shows_every_pipeline_to_who_has_logged_in_and_changes_nothing(
    platform: Platform,
) -> None:
    for pipeline in (BRONZE, WINDOWS):
        platform.until_healthy(pipeline)
    for path in ("/pipelines", f"/pipelines/{WINDOWS}", f"/pipelines/{WINDOWS}/log"):
        assert platform.airflow.page(f"{PAGE}{path}", with_login=False)[0] == 401
    assert platform.airflow.page("/tidemill/")[0] == 200
    rows = until(lambda: at_work(platform), "the page shows both streams at work", LOOK_SECONDS)
    for name in (BRONZE, WINDOWS):
        # A busy machine is behind its trigger, which the page says.
        assert rows[name]["health"] in ("good", "warn"), rows[name]["reason"]
    assert rows["iot_daily_summary"]["mode"] == "incremental"
    view = answer(platform, f"/pipelines/{WINDOWS}")
    assert view["generation"] == platform.agent.ask("generation", pipeline=WINDOWS)
    assert {action["label"] for action in view["actions"]} >= {"Restart", "Stop", "Rewind"}
    see_the_ledger(platform)
    see_that_it_cannot_write(platform)
    see_the_log(platform)


def at_work(platform: Platform) -> dict[str, dict[str, Any]] | None:
    """All pipelines, once both streams are: what the page shows is some seconds old.

    One that has read all that there is waits for more.
    """
    rows = overview(platform)
    states = {rows[name]["state"] for name in (BRONZE, WINDOWS)}
    return rows if states <= {"running", "waiting"} else None


def see_the_ledger(platform: Platform) -> None:
    """Check that the page shows the live generation's batches in the table, newest first."""
    lines = answer(platform, f"/pipelines/{WINDOWS}/ledger?limit=50")
    live = platform.agent.ask("generation", pipeline=WINDOWS)
    shown = [
        [line["version"], line["batch_id"]]
        for line in lines
        if (line["table"], line["generation"]) == (TABLES[WINDOWS], live) and line["mode"] != "base"
    ]
    own = platform.agent.ask("ledger", pipeline=WINDOWS, table=TABLES[WINDOWS])
    assert shown
    newest_first = [[version, batch] for version, _, batch in reversed(own)]
    # Others may have been committed between the two looks.
    begin = newest_first.index(shown[0])
    assert shown == newest_first[begin : begin + len(shown)]


def see_that_it_cannot_write(platform: Platform) -> None:
    """Check that an attacker who controls the API server cannot write to the lake."""
    target = f"deployment/{NAME}-api-server"
    with pytest.raises(RefusedError, match="Read-only file system"):
        platform.cluster("exec", target, "--container=api-server", "--", "touch", f"{platform.root}/written")


def see_the_log(platform: Platform) -> None:
    """Check that only users with the right to read records see the log; by default, no user has it."""
    code, text = platform.airflow.page(f"{PAGE}/pipelines/{WINDOWS}/log")
    assert code == 403, text
    platform.cluster(*platform.in_scheduler("python", "-c", GRANT, "Admin"))

    def granted() -> Any:
        code, text = platform.airflow.page(f"{PAGE}/pipelines/{WINDOWS}/log")
        return json.loads(text) if code == 200 else None

    log = until(granted, "the log is shown", LOOK_SECONDS)
    assert f"pod {kubernetes_name(WINDOWS)}-0" in log["process"]
    assert log["lines"]
