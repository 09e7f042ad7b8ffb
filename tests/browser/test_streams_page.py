"""The Streams page as people meet it: in Chromium, served by a real Airflow, with Airflow's own login."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import deltalake
import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

from tests.support.shown_project import HOSTILE, give_history, prepare
from tests.support.small_project import SmallProject, small_project
from tests.support.streams_browser import RUNBOOKS, Theme, Visitors, visitors
from tidemill.airflow_names import stream_dag_id
from tidemill.checkpoint.desired import Desired, write_desired

# Charts of a driver that reports all values.
CHARTS = [
    "Rows a second",
    "Batch time by part (ms)",
    "Lag by partition (records)",
    "Watermark behind the newest event (s)",
    "Rows of state",
    "State (MB)",
    "Rows set aside",
]

# Milliseconds until what the server's next look has seen must be on the page; it looks every 3 s.
SEEN = 20_000

# The same for what Airflow's scheduler does: it starts, runs a task, and reconciles once a minute.
DONE = 180_000


# Keeps the texts on each canvas since it was last cleared.
WRITTEN = """
for (const name of ["clearRect", "fillText"]) {
    const real = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...given) {
        this.canvas.written = name === "clearRect" ? [] : [...(this.canvas.written ?? []), given[0]];
        return real.apply(this, given);
    };
}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallProject]:
    with small_project(tmp_path_factory.mktemp("browser") / "project") as project:
        prepare(project)
        yield project


@pytest.fixture(scope="module")
def people(project: SmallProject) -> Iterator[Visitors]:
    with visitors(project.folder.parent, project) as people:
        yield people


def test_the_overview_shows_states_and_reasons_is_searched_filtered_and_sorted(people: Visitors) -> None:
    with people.visit("admin") as admin:
        page = admin.open("")
        rows = page.locator("tr.row")
        expect(rows).to_have_count(6, timeout=SEEN)
        held = page.locator("tr[data-pipeline=held]")
        expect(held).to_contain_text(f"the till is being counted {HOSTILE} (by alice)")
        expect(held.locator(".badge.bad")).to_have_text("held")
        runbook = held.get_by_role("link", name="hold", exact=True)
        expect(runbook).to_have_attribute("href", f"{RUNBOOKS}/hold.md")
        expect(rows.first).to_have_attribute("data-pipeline", "held")
        orders = page.locator("tr[data-pipeline=orders]")
        expect(orders.locator(".badge.warn")).to_have_text("running")
        expect(orders).to_contain_text("its slowest partition was 100 records behind, and is 1,000 by now")
        expect(orders.get_by_label("records that waited, 10 batches, at most 1000")).to_be_visible()
        expect(orders.get_by_label("rows a second, 10 batches, at most 109")).to_be_visible()
        page.get_by_label("Search").fill("till")
        expect(rows).to_have_count(2)
        page.get_by_label("Search").fill("")
        page.get_by_label("State", exact=True).select_option("bad")
        expect(rows).to_have_count(1)
        page.get_by_label("State", exact=True).select_option("")
        page.get_by_role("button", name="Pipeline", exact=True).click()
        expect(rows.first).to_have_attribute("data-pipeline", "daily")
        page.get_by_role("button", name="Pipeline", exact=True).click()
        expect(rows.first).to_have_attribute("data-pipeline", "payments")
        page.get_by_label("Group by").select_option("owner")
        expect(page.locator("tr.group")).to_have_text(
            [f"{HOSTILE} (1)", "reports (1)", "tests (3)", "till (1)"]
        )


def test_a_hostile_reason_and_hostile_rows_are_shown_as_text(people: Visitors) -> None:
    with people.visit("admin") as admin:
        page = admin.open("")
        elements = page.locator("img, body script")
        stopped = page.locator("tr[data-pipeline=down]")
        expect(stopped).to_contain_text(f"stopped by tests: {HOSTILE}", timeout=SEEN)
        expect(stopped.get_by_role("cell", name=HOSTILE, exact=True)).to_be_visible()
        admin.open("pipelines/down")
        expect(page.get_by_text(f"{HOSTILE} from the clock. Owner: {HOSTILE}.")).to_be_visible(timeout=SEEN)
        assert elements.count() == 0
        admin.open("pipelines/orders")
        page.get_by_text("Output: newest rows and plot").click()
        newest = page.get_by_role("region", name="Newest rows")
        expect(newest.locator("tbody")).to_contain_text(HOSTILE, timeout=SEEN)
        expect(newest.locator("thead")).to_contain_text(HOSTILE)
        page.get_by_role("heading", name="Quarantine").click()
        expect(page.get_by_role("region", name="Reasons")).to_contain_text(f"because of {HOSTILE}")
        rejected = page.get_by_role("region", name="Newest records")
        for what in ("because of", "value", "file"):
            expect(rejected).to_contain_text(f"{what} {HOSTILE}")
        page.get_by_role("heading", name="Driver log").click()
        expect(page.get_by_label("Log", exact=True)).to_contain_text(f"line of {HOSTILE}")
        assert elements.count() == 0
        for address in (f"pipelines/{HOSTILE}", f"dags/{HOSTILE}", "pipelines/%E0%A4%A"):
            admin.open(address)
            page.reload()
            expect(page.locator("#main")).to_be_attached()
            assert elements.count() == 0


def test_a_pipeline_has_live_charts_its_output_as_table_and_plot_and_its_parts(people: Visitors) -> None:
    with people.visit("admin") as admin:
        page = admin.open("pipelines/orders")
        expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible(timeout=SEEN)
        expect(page.locator(".charts h3")).to_have_text(CHARTS)
        rates = page.get_by_role("region", name="Rows a second")
        expect(rates.locator(".said")).to_have_text("newest 209 (done), highest 209 (done)")
        expect(page.get_by_role("img", name="Rows of state: newest 1,009, highest 1,009")).to_be_visible()
        lag = page.get_by_label("Lag by partition")
        expect(lag.locator(".u-legend .u-label")).to_have_text(["orders-0", "orders-1"])
        page.get_by_text("Output: newest rows and plot").click()
        expect(page.locator("svg.plot circle")).to_have_count(20, timeout=SEEN)
        expect(page.get_by_role("region", name="Newest rows").locator("tbody tr")).to_have_count(20)
        page.get_by_role("heading", name="Driver log").click()
        expect(page.get_by_label("Log", exact=True)).to_contain_text("fake driver")
        page.get_by_role("heading", name="Checkpoints and verbs").click()
        page.get_by_role("heading", name="Backfills").click()
        expect(page.get_by_text("None was planned.")).to_be_visible()
        page.get_by_role("heading", name="In sentences").click()
        expect(page.locator("#explanation")).to_contain_text("Writes to the table bronze/orders by append.")
        expect(page.locator(".note.bad")).to_have_count(0)


def test_the_time_line_draws_generations_verbs_and_backups_and_tells_what_they_did(
    people: Visitors, project: SmallProject
) -> None:
    give_history(project.plane())
    with people.visit("admin") as admin:
        page = admin.open("pipelines/hourly")
        page.get_by_role("heading", name="Checkpoints and verbs").click()
        line = page.get_by_role("img", name="generations: 2, verbs: 1, backups: 1")
        expect(line.locator(".bar")).to_have_count(2, timeout=SEEN)
        expect(line.locator(".mark.verb title")).to_have_text("rewind: wrong unit")
        expect(line.locator(".mark.backup title")).to_have_text("backup of batch 4: before the deploy")
        told = page.locator("ol.timeline > li")
        expect(told).to_have_count(4)
        page.get_by_text("rewind wrong unit (ann)").click()
        expect(told.filter(has_text="rewind-1")).to_contain_text("g0001, batch 4")
        expect(told.filter(has_text="rewind-1")).to_contain_text("g0002, batch 2")


def test_the_newest_rows_on_the_page_follow_the_table(people: Visitors, project: SmallProject) -> None:
    with people.visit("admin") as admin:
        page = admin.open("pipelines/orders")
        page.get_by_text("Output: newest rows and plot").click()
        newest = page.get_by_role("region", name="Newest rows")
        expect(newest.locator("tbody tr")).to_have_count(20, timeout=SEEN)
        at = [datetime(2026, 1, 2, tzinfo=UTC)]
        row = {"at": at, "value": [1234.5], "who": ["arrived later"], HOSTILE: ["later"]}
        deltalake.write_deltalake(
            project.environment.layout.table("bronze/orders"), pa.table(row), mode="append"
        )
        expect(newest).to_contain_text("arrived later", timeout=SEEN)
        expect(page.locator("svg.plot")).to_contain_text("1,23", timeout=SEEN)


def test_the_output_of_each_table_of_a_pipeline_can_be_seen(people: Visitors, project: SmallProject) -> None:
    for table in ("silver/daily", "silver/returns"):
        rows = pa.table({"what": [f"of {table}"]})
        deltalake.write_deltalake(project.environment.layout.table(table), rows)
    with people.visit("admin") as admin:
        page = admin.open("pipelines/daily")
        page.get_by_text("Output: newest rows and plot").click()
        newest = page.get_by_role("region", name="Newest rows")
        expect(newest).to_contain_text("of silver/daily", timeout=SEEN)
        choice = page.get_by_label("Table", exact=True)
        choice.focus()
        choice.select_option("silver/returns")
        expect(newest).to_contain_text("of silver/returns", timeout=SEEN)
        expect(choice).to_be_focused()
        # One table needs no choice.
        admin.open("pipelines/orders")
        page.get_by_text("Output: newest rows and plot").click()
        expect(newest).to_contain_text(HOSTILE, timeout=SEEN)
        expect(choice).to_be_hidden()


def test_a_viewer_gets_no_buttons_no_records_and_403(people: Visitors) -> None:
    with people.visit("viewer") as viewer:
        page = viewer.open("pipelines/held")
        expect(page.get_by_role("heading", name="held", exact=True)).to_be_visible(timeout=SEEN)
        expect(page.get_by_role("group", name="Actions").get_by_role("button")).to_have_count(0)
        expect(page.locator("details#log")).to_be_hidden()
        expect(page.locator("details#sample")).to_be_hidden()
        for part in ("log", "sample", "quarantine/records"):
            assert viewer.answer_to(f"pipelines/orders/{part}") == 403
        assert viewer.answer_to("pipelines/orders/ledger") == 200
        assert viewer.answer_to_run("stream__orders") == 403


def test_who_has_not_logged_in_sees_nothing_and_is_told_so(people: Visitors) -> None:
    with people.visit("viewer") as viewer:
        viewer.page.context.clear_cookies()
        page = viewer.open("")
        expect(page.get_by_text("You are not logged in to Airflow.")).to_be_visible(timeout=SEEN)
        assert viewer.answer_to("pipelines") == 401


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_overview_pipeline_and_graph_follow_the_theme(people: Visitors, theme: Theme) -> None:
    with people.visit("admin", theme) as admin:
        page = admin.open("")
        expect(page.locator("tr.row")).to_have_count(6, timeout=SEEN)
        is_dark = "() => document.documentElement.classList.contains('dark')"
        assert page.evaluate(is_dark) == (theme == "dark")
        admin.keep(f"overview-{theme}")
        admin.open("pipelines/orders")
        page.get_by_text("Output: newest rows and plot").click()
        expect(page.locator("svg.plot")).to_be_visible(timeout=SEEN)
        expect(page.locator(".charts canvas").first).to_be_visible()
        admin.keep(f"pipeline-{theme}")
        admin.open("graph")
        expect(page.locator("svg.graph a")).to_have_count(6, timeout=SEEN)
        admin.keep(f"graph-{theme}")


def test_a_narrow_window_scrolls_tables_and_not_the_page(people: Visitors) -> None:
    with people.visit("viewer", width=380) as viewer:
        page = viewer.open("")
        expect(page.locator("tr.row")).to_have_count(6, timeout=SEEN)
        assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_the_graph_leads_to_a_pipeline_by_keyboard(people: Visitors) -> None:
    with people.visit("viewer") as viewer:
        page = viewer.open("graph")
        link = page.locator("svg.graph a[href='#/pipelines/daily']")
        expect(link).to_be_visible(timeout=SEEN)
        link.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="daily", exact=True)).to_be_visible(timeout=SEEN)


def _moments(page: Page) -> list[str]:
    """Return the times on the axis of the first chart, after everything is drawn."""
    drawn = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
    page.evaluate(drawn)
    written: list[str] = page.locator(".charts canvas").first.evaluate("canvas => canvas.written")
    return [text for text in written if text.count(":") == 2]


def test_the_graph_tells_new_times_in_the_picture_that_is_there(people: Visitors) -> None:
    with people.visit("viewer") as viewer:
        page = viewer.open("graph")
        expect(page.locator("svg.graph a")).to_have_count(6, timeout=SEEN)
        before = page.locator("svg.graph > text.when").all_text_contents()
        page.locator("svg.graph").evaluate("picture => picture.dataset.drawn = 'once'")
        texts = "[...document.querySelectorAll('svg.graph > text.when')].map(text => text.textContent)"
        page.wait_for_function(f"before => {texts}.join() !== before.join()", arg=before, timeout=SEEN)
        expect(page.locator("svg.graph[data-drawn=once]")).to_have_count(1)


def test_a_chart_stays_at_what_somebody_has_dragged_over_until_a_double_click(people: Visitors) -> None:
    with people.visit("viewer") as viewer:
        page = viewer.page
        # What is on a canvas is known by who writes on it.
        page.add_init_script(WRITTEN)
        viewer.open("pipelines/orders")
        chart = page.get_by_role("region", name="Rows a second").locator(".u-over")
        chart.hover(timeout=SEEN)
        whole = _moments(page)
        box = chart.bounding_box()
        assert box is not None
        height = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.2, height)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.4, height, steps=5)
        page.mouse.up()
        dragged = _moments(page)
        assert set(dragged) != set(whole)
        for _ in range(2):
            with page.expect_response("**/pipelines/orders/history"):
                pass
            assert _moments(page) == dragged
        chart.dblclick()
        assert _moments(page) == whole


def test_airflow_shows_the_page_in_its_navigation_and_a_pipeline_as_tab_of_its_dag(people: Visitors) -> None:
    with people.visit("admin") as admin:
        admin.page.goto(f"{admin.url}/plugin/streams")
        frame = admin.page.frame_locator("iframe")
        expect(frame.locator("tr.row")).to_have_count(6, timeout=SEEN)
        admin.page.goto(f"{admin.url}/dags/{stream_dag_id('orders')}")
        admin.page.get_by_role("link", name="Stream", exact=True).click()
        heading = frame.get_by_role("heading", name="orders", exact=True)
        expect(heading).to_be_visible(timeout=SEEN)


def test_a_form_takes_the_focus_and_gives_it_back_also_to_a_page_that_was_drawn_anew(
    people: Visitors, project: SmallProject
) -> None:
    with people.visit("admin") as admin:
        page = admin.open("pipelines/down")
        start = page.get_by_role("button", name="Start", exact=True)
        start.focus(timeout=SEEN)
        page.keyboard.press("Enter")
        form = page.get_by_role("dialog", name="Run stream__down")
        expect(form.locator("[name=action]")).to_be_focused(timeout=SEEN)
        plane = project.plane()
        again = Desired(state="stopped", by="tests", reason=f"{HOSTILE} again")
        write_desired(plane.store, plane.layout, "down", again)
        expect(page.locator("article")).to_contain_text(f"{HOSTILE} again", timeout=SEEN)
        page.keyboard.press("Escape")
        expect(form).to_have_count(0)
        expect(start).to_be_focused()


def test_a_held_stream_is_red_its_button_leads_to_its_release_and_released_it_runs_and_is_green(
    people: Visitors,
) -> None:
    with people.visit("admin") as admin:
        page = admin.open("pipelines/held")
        expect(page.locator(".note.bad")).to_contain_text("the till is being counted", timeout=SEEN)
        runbook = page.get_by_role("link", name="hold", exact=True)
        expect(runbook).to_have_attribute("href", f"{RUNBOOKS}/hold.md")
        page.get_by_role("button", name="To fix: release hold audit-1").click()
        expect(page.get_by_role("dialog").locator("[name=hold]")).to_have_value("audit-1", timeout=SEEN)
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Release hold audit-1", exact=True).click()
        form = page.get_by_role("dialog")
        expect(form.locator("[name=hold]")).to_have_value("audit-1", timeout=SEEN)
        expect(form.locator("[name=pipeline]")).to_have_value("held")
        form.locator("[name=reason]").fill("counted")
        # By default, a form requests only the plan.
        form.locator("[name=dry_run]").uncheck()
        form.get_by_role("button", name="Trigger").click()
        expect(form.get_by_text("The run was asked for.")).to_be_visible(timeout=SEEN)
        form.get_by_role("button", name="Close").click()
        with people.scheduler():
            expect(page.locator(".note.bad")).to_have_count(0, timeout=DONE)
            expect(page.locator("#main .badge.good")).to_have_text("running", timeout=DONE)
        page.get_by_role("heading", name="Checkpoints and verbs").click()
        expect(page.locator("#checkpoints")).to_contain_text("counted", timeout=SEEN)
