"""The Streams page by FAB's users and roles, as production has them: a real Airflow, real logins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache

import deltalake
import pyarrow as pa
import pytest

from tests.support.eventually import eventually
from tests.support.fab_people import FAB, Login, People, login_of, run_in_airflow
from tests.support.fake_driver import ROOT
from tests.support.small_project import SmallProject, small_project
from tests.support.streams_server import streams_server
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.status import read_status
from tidemill.control.decide.all_streams import reconcile_streams

READS_ORDERS = """
description: Sums of orders.
owner: tests
source: {delta: {table: bronze/orders}}
sinks:
  - delta: {table: silver/sums}
run: {mode: incremental}
"""

# One DAG of a project, in FAB's words.
READ = (("can_read", "DAG:stream__orders"),)
RUN = (*READ, ("can_edit", "DAG:stream__orders"), ("can_create", "DAG Run:stream__orders"))

PEOPLE = People(
    # The one permission of `Records` is made as dags/README.md says.
    roles={"Records": (), "Orders reader": READ, "Orders operator": RUN},
    users={
        "admin": ("Admin",),
        "op": ("Op",),
        "user": ("User",),
        "user_with_records": ("User", "Records"),
        "viewer": ("Viewer",),
        "viewer_with_records": ("Viewer", "Records"),
        "orders_reader": ("Orders reader",),
        "orders_operator": ("Orders operator",),
        "orders_operator_with_records": ("Orders operator", "Records"),
        "public": ("Public",),
    },
)

ALL = ["orders", "payroll", "sums"]
ORDERS = ["orders"]

# What each sees, and of which pipelines it may see what flows.
SEES = {
    "admin": (ALL, ALL),
    "op": (ALL, []),
    "user": (ALL, []),
    "user_with_records": (ALL, ALL),
    "viewer": (ALL, []),
    "viewer_with_records": (ALL, []),
    "orders_reader": (ORDERS, []),
    "orders_operator": (ORDERS, []),
    "orders_operator_with_records": (ORDERS, ORDERS),
    "public": ([], []),
}

OF_RECORDS = ("sample", "log", "quarantine/records")
OF_ALL = ("", "/explanation", "/history", "/ledger", "/checkpoints", "/backfills", "/quarantine")

# Text that is in a row, in a rejected record and in the reason of its rejection.
PAYLOAD = "a-row-of-somebody"

Logged = Callable[[str | None], Login]


def prepare(project: SmallProject) -> None:
    """Prepare a stream with rows, rejected records and a log, a stopped one, and a reader of its table."""
    project.declare("orders")
    project.declare("payroll")
    project.declare("sums", READS_ORDERS)
    plane = project.plane()
    write_desired(plane.store, plane.layout, "payroll", Desired(state="stopped", by="tests"))
    reconcile_streams(plane)
    eventually(
        lambda: (status := read_status(plane.store, plane.layout, "orders")) and status.batch_id == 0,
        "the stream commits",
    )
    at = [datetime(2026, 1, 1, tzinfo=UTC)]
    deltalake.write_deltalake(plane.layout.table("bronze/orders"), pa.table({"at": at, "who": [PAYLOAD]}))
    rejected = {
        "quarantined_at": at,
        # The error of a transform may quote the record; other reasons do not.
        "reason": [f"transform_failed:ValueError: {PAYLOAD}"],
        "value": [PAYLOAD.encode()],
        "arrived_at": at,
        **{name: ["landing"] for name in ("topic", "file")},
        **{name: [1] for name in ("partition", "offset", "line")},
    }
    deltalake.write_deltalake(plane.layout.quarantine("orders"), pa.table(rejected))


def make_people(environment: Mapping[str, str]) -> None:
    PEOPLE.make(environment)
    # Run the program in dags/README.md for a custom role; Admin gets every permission that exists.
    text = (ROOT / "dags/README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert '"Admin"' in program
    run_in_airflow(environment, "-c", program.replace('"Admin"', '"Records"'))


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    """Logins of the people, once the page has looked."""
    folder = tmp_path_factory.mktemp("fab")
    with small_project(folder / "project") as project:
        prepare(project)
        with streams_server(folder / "airflow", project, FAB, make_people) as (server, _):

            @cache
            def logged(user: str | None) -> Login:
                return login_of(server.url, user)

            eventually(lambda: logged("admin").seen("/pipelines")["pipelines"], "the page has looked")
            yield logged


def names_of(login: Login) -> list[str]:
    return [each["name"] for each in login.seen("/pipelines")["pipelines"]]


@pytest.mark.parametrize("user", SEES)
def test_a_role_decides_what_is_in_the_overview_and_in_the_graph(logged: Logged, user: str) -> None:
    login, (sees, _) = logged(user), SEES[user]
    assert names_of(login) == sees
    graph = login.seen("/graph")
    assert [node["name"] for node in graph["nodes"] if node["kind"] == "pipeline"] == sees
    ends = {edge[end] for edge in graph["edges"] for end in ("source", "target")}
    assert {end for end in ends if end.startswith("pipeline ")} == {f"pipeline {name}" for name in sees}


@pytest.mark.parametrize("user", SEES)
def test_what_a_role_may_not_see_is_not_found_and_no_answer_names_it(logged: Logged, user: str) -> None:
    login, (sees, _) = logged(user), SEES[user]
    hidden = set(ALL) - set(sees)
    parts = (*OF_ALL, *(f"/{part}" for part in OF_RECORDS))
    codes = {f"{name}{part}": login.page(f"/pipelines/{name}{part}")[0] for name in hidden for part in parts}
    assert codes == dict.fromkeys(codes, 404)
    paths = ["/pipelines", "/graph", *(f"/pipelines/{name}{part}" for name in sees for part in parts)]
    told = "".join(login.page(path)[1] for path in paths)
    assert [name for name in hidden if name in told] == []


@pytest.mark.parametrize("user", SEES)
def test_records_need_the_right_to_run_and_the_view(logged: Logged, user: str) -> None:
    login, (sees, reads) = logged(user), SEES[user]
    assert [name for name in sees if login.seen(f"/pipelines/{name}")["may_see_records"]] == reads
    if "orders" not in sees:
        return
    answers = {part: login.page(f"/pipelines/orders/{part}") for part in OF_RECORDS}
    code = 200 if "orders" in reads else 403
    assert {part: found for part, (found, _) in answers.items()} == dict.fromkeys(OF_RECORDS, code)
    shows = [part for part, (_, text) in answers.items() if PAYLOAD in text]
    assert shows == (["sample", "quarantine/records"] if "orders" in reads else [])
    # What anybody may see who may see the pipeline says nothing of what flows.
    texts = {part: login.page(f"/pipelines/orders{part}") for part in OF_ALL}
    assert {part: found for part, (found, _) in texts.items()} == dict.fromkeys(OF_ALL, 200)
    assert [part for part, (_, text) in texts.items() if PAYLOAD in text] == []


@pytest.mark.parametrize(
    ("user", "buttons"),
    [
        ("admin", {"orders": 7, "payroll": 5, "sums": 6}),
        ("op", {"orders": 7, "payroll": 5, "sums": 6}),
        ("viewer", {"orders": 0, "payroll": 0, "sums": 0}),
        ("viewer_with_records", {"orders": 0, "payroll": 0, "sums": 0}),
        ("orders_reader", {"orders": 0}),
        # Actions of the stream's own DAG. Checkpoint operations have separate DAGs.
        ("orders_operator", {"orders": 3}),
    ],
)
def test_a_button_is_there_where_airflow_takes_the_run_and_nowhere_else(
    logged: Logged, user: str, buttons: dict[str, int]
) -> None:
    login, admin = logged(user), logged("admin")
    actions = {name: login.seen(f"/pipelines/{name}")["actions"] for name in names_of(login)}
    assert {name: len(found) for name, found in actions.items()} == buttons
    offered = {action["dag_id"] for found in actions.values() for action in found}
    every = {action["dag_id"] for name in ALL for action in admin.seen(f"/pipelines/{name}")["actions"]}
    refused = {dag_id for dag_id in every if login.run(dag_id, {}) == 403}
    assert every - refused == offered
    taken = [login.run(action["dag_id"], action["conf"]) for action in actions.get("orders", [])[:1]]
    assert taken == [200] * len(taken)


@pytest.mark.parametrize("path", ["/pipelines", "/graph", "/pipelines/orders", "/pipelines/orders/log"])
def test_nobody_sees_anything_without_a_login_or_with_a_forged_one(logged: Logged, path: str) -> None:
    nobody = logged(None)
    assert nobody.page(path)[0] == 401
    header, claims, _ = str(logged("admin").token).split(".")
    assert Login(nobody.url, f"{header}.{claims}.{'A' * 86}").page(path)[0] == 403
    assert nobody.run("stream__orders", {"action": "stop"}) == 401
    assert "orders" not in nobody.ask("/tidemill/")[1]
