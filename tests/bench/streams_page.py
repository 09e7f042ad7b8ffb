"""Print the time that the Streams page takes with 1,000 pipelines: to load in Chromium, and to answer a
refresh.

Airflow's API server with its login is real, and so is Debian's Chromium. Storage is a local folder with the
files that 1,000 drivers would have left there. Limits: 1.5 s until 1,000 rows are drawn, and 300 ms of server
time for a refresh of the rows or of their graph. A refresh of the rows is also measured with FAB's roles: for
a user who may see all DAGs, and for one who may see 100.

Run: make bench-page
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.observe import status_of, told
from tests.support.eventually import eventually
from tests.support.fab_people import FAB, Login, People, login_of
from tests.support.small_project import STREAM, SmallProject, small_project
from tests.support.spark_progress import report_of, told_batches
from tests.support.streams_browser import Person, visitors
from tests.support.streams_server import streams_server
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.query_report import write_query_report
from tidemill.checkpoint.status import write_status

PIPELINES = 1_000
LOADS, REFRESHES = 9, 50
LOAD_MILLISECONDS, REFRESH_MILLISECONDS = 1_500.0, 300.0

# Seconds for which the open page's requests are counted.
COUNTED_SECONDS = 12

# Those with FAB, and the DAGs of one of them.
SEEN_BY_TEAM = 100
PEOPLE = People(
    roles={"Team": tuple(("can_read", f"DAG:stream__stream_{n:04}") for n in range(SEEN_BY_TEAM))},
    users={"admin": ("Admin",), "team": ("Team",)},
)

# A plan as long as that of a join of two streams with windows.
PLAN = "== Physical Plan ==\n" + "+- *(1) Project [id#1, at#2, value#3]\n" * 400


def prepare(project: SmallProject) -> None:
    """Declare stopped streams, and write all the files that their drivers would have left."""
    plane, now = project.plane(), datetime.now(UTC)
    batches, aside = told_batches(10, now)
    for number in range(PIPELINES):
        name = f"stream_{number:04}"
        project.declare(name, STREAM.replace("owner: tests", f"owner: team-{number % 7}"))
        write_desired(plane.store, plane.layout, name, Desired(state="stopped", by="bench"))
        write_status(plane.store, plane.layout.status(name), status_of(name))
        told = {"recent_progress": batches, "rows_aside": aside, "explain": PLAN}
        write_query_report(plane.store, plane.layout, report_of(name, now).model_copy(update=told))


def load(person: Person) -> float:
    """Return milliseconds from the start of the navigation to 1,000 rows that the browser has drawn."""
    person.page.goto("about:blank")
    person.open("")
    person.page.wait_for_function(f"() => document.querySelectorAll('tr.row').length === {PIPELINES}")
    drawn = (
        "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
    )
    return float(person.page.evaluate(drawn))


def refresh(person: Person | Login, part: str = "pipelines") -> float:
    """Return milliseconds for one answer about all pipelines."""
    request = urllib.request.Request(
        f"{person.url}/tidemill/api/{part}",
        headers={"Authorization": f"Bearer {person.token}", "Accept-Encoding": "gzip"},
    )
    begun = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        content = answer.read()
    taken = 1000 * (time.perf_counter() - begun)
    assert (gzip.decompress(content) if answer.headers["Content-Encoding"] == "gzip" else content)[:1] == b"{"
    return taken


def requests_of(person: Person) -> Counter[str]:
    """Return the number of requests per path that an open page sends in `COUNTED_SECONDS`."""
    asked = Counter[str]()
    person.page.on("request", lambda request: asked.update([urlsplit(request.url).path]))
    person.page.wait_for_timeout(1000 * COUNTED_SECONDS)
    return asked


def refreshes_with_fab(folder: Path, project: SmallProject) -> list[float]:
    """Return medians of a refresh of each person, in milliseconds."""
    medians = []
    with streams_server(folder / "fab", project, FAB, PEOPLE.make) as (server, _):
        for user, sees in (("admin", PIPELINES), ("team", SEEN_BY_TEAM)):
            login = login_of(server.url, user)

            def has_all(login: Login = login, sees: int = sees) -> bool:
                return len(login.seen("/pipelines")["pipelines"]) == sees

            eventually(has_all, "the first look", 300, poll_seconds=1)
            times = sorted(refresh(login) for _ in range(REFRESHES))
            medians.append(told(f"refresh with FAB, {user}, who sees {sees}", times))
    return medians


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, small_project(Path(folder) / "project") as project:
        prepare(project)
        with visitors(Path(folder), project) as people, people.visit("admin") as person:
            person.open("")
            rows = person.page.locator("tr.row")
            eventually(lambda: rows.count() == PIPELINES, "the first look", 300, poll_seconds=1)
            loaded = told("load", sorted(load(person) for _ in range(LOADS)))
            refreshed = told(
                "refresh, seen from beside the server", sorted(refresh(person) for _ in range(REFRESHES))
            )
            graph = told("refresh of the graph", sorted(refresh(person, "graph") for _ in range(REFRESHES)))
            asked = requests_of(person)
        with_fab = refreshes_with_fab(Path(folder), project)
    print(f"an open page asks in {COUNTED_SECONDS} s: {dict(asked)}")
    slowest = max(refreshed, graph, *with_fab)
    is_met = loaded < LOAD_MILLISECONDS and slowest < REFRESH_MILLISECONDS and len(asked) == 1
    print("PASS" if is_met else "MISSED")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
