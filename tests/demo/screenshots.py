"""Makes README's screenshots from a running demo: `make screenshots`, which starts one where none runs.

A backfill of all that the demo has is begun for them; broken records and alerts come by themselves.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page, expect, sync_playwright

from tests.demo.test_demo import DEMO, REPOSITORY, make
from tests.support.eventually import eventually
from tests.support.streams_browser import CHROMIUM, Person, Theme, Visitors
from tidemill.airflow_names import BACKFILL_DAG_ID
from tidemill.checkpoint.status import read_status
from tidemill.dev.airflow_api import AirflowApi, log_in
from tidemill.dev.airflow_standalone import AirflowServer, find_airflow

FOLDER = REPOSITORY / "dags/tidemill_airflow/plugin/screenshots"

# Whose windows are computed again, and who has rejected records.
WINDOWS, BRONZE = "iot_device_windows", "iot_events_bronze"

# Milliseconds for the page to have looked, and seconds for charts of some batches and for a backfill.
SEEN, BATCHES, BACKFILL = 60_000, 300, 600
LEAST_BATCHES = 12


def begin_backfill(api: AirflowApi) -> None:
    """Start a backfill of six closed windows, in chunks of one window."""
    plane = DEMO.plane()
    status = read_status(plane.store, plane.layout, WINDOWS)
    assert status is not None
    assert status.watermark is not None
    window = timedelta(minutes=5)
    end = datetime.fromtimestamp(status.watermark.timestamp() // 300 * 300, UTC) - window
    begin = end - 6 * window
    fields = {"pipeline": WINDOWS, "from": begin.isoformat(), "to": end.isoformat(), "chunk": "5 minutes"}
    api.unpause(BACKFILL_DAG_ID)
    api.trigger(BACKFILL_DAG_ID, {**fields, "dry_run": False})


def shoot(person: Person, name: str, part: str = "") -> None:
    """Take a screenshot of the window, or of a part of a pipeline's page with its heading on top."""
    if part:
        person.page.locator(f"details#{part} summary").click()
        expect(person.page.locator(f"details#{part} table").first).to_be_visible(timeout=SEEN)
        person.page.locator(f"details#{part}").evaluate("part => part.scrollIntoView()")
    FOLDER.mkdir(exist_ok=True)
    person.page.screenshot(path=FOLDER / f"{name}.png")


def begun(page: Page) -> bool:
    page.reload()
    page.locator("details#backfills summary").click()
    bars = page.locator("details#backfills progress")
    bars.first.wait_for(timeout=SEEN)
    return float(bars.first.get_attribute("value") or 0) > 0


def shoot_all(people: Visitors, theme: Theme) -> None:
    with people.visit("admin", theme) as person:
        page = person.open("")
        expect(page.locator("tr.row").first).to_be_visible(timeout=SEEN)
        shoot(person, f"overview-{theme}")
        person.open("graph")
        expect(page.locator("svg.graph a").first).to_be_visible(timeout=SEEN)
        shoot(person, f"graph-{theme}")
        person.open(f"pipelines/{WINDOWS}")
        expect(page.locator(".charts canvas").first).to_be_visible(timeout=SEEN)
        shoot(person, f"pipeline-{theme}")
        shoot(person, f"backfill-{theme}", "backfills")
        person.open(f"pipelines/{BRONZE}")
        expect(page.locator(".charts canvas").first).to_be_visible(timeout=SEEN)
        shoot(person, f"quarantine-{theme}", "quarantine")


def has_batches() -> bool:
    plane = DEMO.plane()
    status = read_status(plane.store, plane.layout, WINDOWS)
    return status is not None and (status.batch_id or 0) >= LEAST_BATCHES and status.watermark is not None


def main() -> None:
    started = make("demo")
    assert started.returncode == 0, started.stdout
    server: AirflowServer | None = find_airflow(DEMO.folder / "airflow")
    assert server is not None
    eventually(has_batches, "charts have something to show", BATCHES, 1)
    begin_backfill(log_in(server.url, server.user, server.password))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        people = Visitors(browser, server, {})
        with people.visit("admin") as person:
            page = person.open(f"pipelines/{WINDOWS}")
            eventually(lambda: begun(page), "the backfill has done a chunk", BACKFILL, 2)
        for theme in ("light", "dark"):
            shoot_all(people, theme)
        browser.close()


if __name__ == "__main__":
    main()
