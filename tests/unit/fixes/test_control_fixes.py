"""The command that the fix of a refused request, or of a fenced driver, names solves the problem."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.capture_files import CaptureFolder, Event
from tests.support.cluster_project import ENVIRONMENT as CLUSTER
from tests.support.followed_fixes import Trouble, asked, each, gate, nothing, nowhere, raised
from tests.support.hub_facts_peer import HubFactsPeer, PeerPartition
from tests.support.lineage_service import lineage_service
from tests.support.patient import ORDERS, TABLE, Patient
from tests.support.runbook_story import Act
from tests.support.small_project import ENVIRONMENT, write_at_once
from tests.unit.cli.test_hub_commands import READINGS
from tests.unit.runbooks import test_checkpoint_pages as tables
from tests.unit.runbooks import test_doctor_pages as health
from tests.unit.runbooks import test_owner_pages as owners
from tests.unit.runbooks import test_upgrade_pages as upgrades
from tidemill.checkpoint.root_owner import check_started_by_owner, write_owner
from tidemill.engine.half_written import check_same_set_aside
from tidemill.ledger.difference import Difference
from tidemill.ledger.lost_race import LostRaceError
from tidemill.ledger.read import read_commits
from tidemill.sinks.table_log import TableLog

INCREMENTAL = ORDERS + 'run: {mode: incremental, schedule: "@daily"}\n'
TWO_TABLES = ORDERS + "  - delta: {table: silver/orders}\n"
TAKEOVER = "control takeover"


PLAN = asked("plan", "PIPELINE")
EMITS = asked("lineage", "emit", "PIPELINE", "--since", "2026-01-01")


def ran(patient: Patient) -> None:
    patient.ran(3)


def incremental(patient: Patient) -> None:
    patient.declare(INCREMENTAL)


def is_owner(patient: Patient) -> None:
    patient.plane.own()


def driver_of_before(patient: Patient) -> None:
    """Start a driver that this control plane has started before."""
    plane = patient.plane
    check_started_by_owner(plane.store, plane.layout, plane.as_owner().id)


def taken_over(patient: Patient) -> None:
    patient.ran(2)
    write_owner(patient.plane.store, patient.plane.layout, owners.ELSEWHERE)


def started(patient: Patient) -> None:
    patient.ran(2)
    assert patient.tidemill("start", "orders") == 0, patient.tidemill.out


def no_project(patient: Patient) -> None:
    patient.ran(1)
    patient.values["DIR"] = str(patient.drivers.folder / ".data" / "new")


def reads_a_hub(patient: Patient) -> None:
    """Let the pipeline read further than the hub's last event."""
    patient.has_broker(topic="readings")
    patient.ran(3, READINGS.replace("bronze/readings", "bronze/orders"))


def fell_behind_the_hub(patient: Patient) -> None:
    reads_a_hub(patient)
    archive = CaptureFolder(patient.drivers.folder / ".data/captured", "plant-north", "readings")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    archive.write(0, at, [Event(number, at) for number in range(100)])


def falls_behind_the_hub(patient: Patient) -> None:
    """Set the last batch to almost a week ago."""
    reads_a_hub(patient)
    health.planned_ago(patient, timedelta(days=6, hours=23))


def hub_by_the_doctor(patient: Patient) -> dict[str, str]:
    patient.tidemill("checkpoint", "doctor", "--broker", "--json")
    return {str(one["id"]): str(one["fix"]) for one in json.loads(patient.tidemill.out)["findings"]}


def planned(patient: Patient) -> dict[str, str]:
    """Return the warnings of the plan."""
    warning = str(patient.tidemill.json("plan", "orders")["warning"])
    return dict.fromkeys(re.findall(r"TIDE-[A-Z]+-\d{3}", warning), warning)


def checked_upgrade(patient: Patient) -> dict[str, str]:
    patient.tidemill("upgrade", "check", patient.name, "--json")
    return {str(one["id"]): str(one["fix"]) for one in json.loads(patient.tidemill.out)["findings"]}


def in_memory_of_a_pod(patient: Patient) -> None:
    patient.declare(ORDERS.replace("delta: {table: bronze/orders}", "memory: {name: counts}"))
    pods = CLUSTER % {"namespace": "streams", "image": "drivers"}
    write_at_once(patient.drivers.folder / "conf/environments/pods.yaml", pods)


def in_a_table(patient: Patient) -> None:
    """Declare the table sink that the fix names; its driver has written three rows."""
    patient.declare(
        ORDERS.replace("delta: {table: bronze/orders}", "delta: {table: gold/name, mode: replace}")
    )
    write_deltalake(str(patient.table("gold/name")), pa.table({"n": [1, 2, 3]}))


def in_a_group(patient: Patient) -> None:
    """Prepare Spark's answer that it computes the same rows."""
    patient.ran(3, ORDERS.replace("topic: orders", "topic: orders, options: {kafka.group.id: plant}"))
    patient.has_broker()
    same = Difference(name=TABLE, version=3, rows=30).model_dump(mode="json")
    patient.patch.setattr("tidemill.control.verify_range.run_part", lambda *_: [same])


def transform_calls(method: str) -> Act:
    """Declare a transform that calls an action."""

    def call(patient: Patient) -> None:
        patient.ran(2)
        code(patient, f"def transform(orders):\n    orders.{method}()\n    return orders\n")
        patient.declare(ORDERS + "transform: orders:transform\n")

    return call


def returns(patient: Patient) -> None:
    code(patient, "def transform(orders):\n    return orders\n")


def code(patient: Patient, text: str) -> None:
    file = patient.drivers.folder / "spark_apps/transforms/orders.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def state_is_unbounded(patient: Patient) -> None:
    patient.ran(2, ORDERS + "run: {unbounded_state: accepted}\n")


class LateDriver:
    """A driver that is about to commit batch 2, and commits it after the other steps."""

    commit: Callable[[], object]

    def writes(self, patient: Patient) -> None:
        self.commit()

    def closed_out(self, patient: Patient) -> None:
        """Move the pipeline to another generation with an operation."""
        self._is_late(patient)
        verb = ("checkpoint", "rewind", "orders", "--to", "0", "--reason", "x", "--apply")
        assert patient.tidemill(*verb) == 0, patient.tidemill.err

    def overtaken(self, patient: Patient) -> None:
        """Let another driver write the batch."""
        self._is_late(patient)
        tables.overwrite(patient, 2, 37)
        patient.batches.run("run-2", epoch=2)

    def restored_under(self, patient: Patient) -> None:
        """Remove the committed batch from the table."""
        self._is_late(patient)
        self.commit()
        patient.restore_table_by_hand(2)

    def loses(self, patient: Patient) -> None:
        """Let others commit before each of its attempts."""
        self._is_late(patient)

        def lose(*_: object) -> None:
            raise LostRaceError

        patient.patch.setattr(TableLog, "_commit_once", lose)

    def _is_late(self, patient: Patient) -> None:
        patient.ran(2)
        self.commit = patient.batches.writes_later(patient.batches.plan(), TABLE)


LATE = LateDriver()


def half_written(batches: int) -> Callable[[Patient], None]:
    """Write one of two tables of the next batch."""

    def write(patient: Patient) -> None:
        patient.ran(batches, TWO_TABLES) if batches else patient.declare(TWO_TABLES)
        patient.has_broker()
        patient.batches.write(patient.batches.plan(), TABLE)

    return write


def other_code_goes_on(patient: Patient) -> None:
    """Let a driver finish a half-written batch, if there is one, with other rows for the quarantine."""
    newest = read_commits(str(patient.table()))[0].entry
    assert newest is not None
    if newest.batch_id is None or (patient.checkpoint / f"commits/{newest.batch_id}").exists():
        return
    now = newest.model_copy(update={"set_aside": {TABLE: "b"}})
    check_same_set_aside(
        now, {TABLE: newest.model_copy(update={"set_aside": {TABLE: "a"}})}, ["silver/orders"]
    )


TROUBLES = [
    Trouble(
        "TIDE-CTRL-006", "it is no stream", incremental, "run", seen=asked("start", "PIPELINE"), remains=True
    ),
    Trouble(
        "TIDE-CTRL-010", "another owner", owners.owned_by(owners.ELSEWHERE), TAKEOVER, seen=raised(is_owner)
    ),
    Trouble("TIDE-CTRL-011", "half taken over", owners.half_taken_over, TAKEOVER, seen=raised(is_owner)),
    Trouble("TIDE-CTRL-012", "the record is damaged", owners.damaged, TAKEOVER, seen=raised(is_owner)),
    Trouble("TIDE-RUN-005", "the root was taken over", taken_over, TAKEOVER, seen=raised(driver_of_before)),
    Trouble(
        "TIDE-CTRL-033",
        "no query has this id",
        ran,
        "queries",
        seen=asked("queries", "show", "2F1C-no-query"),
        shows="[]",
    ),
    Trouble(
        "TIDE-CTRL-081", "another key", upgrades.has_another_key, "checkpoint reset", seen=checked_upgrade
    ),
    Trouble(
        "TIDE-MODE-004",
        "a table in a pod's memory",
        in_memory_of_a_pod,
        "query",
        seen=asked("--env", "pods", "plan", "PIPELINE"),
        first=in_a_table,
        shows="3",
    ),
    Trouble(
        "TIDE-CTRL-096",
        "its consumer group is taken",
        in_a_group,
        "backfill verify",
        seen=asked("upgrade", "shadow", "PIPELINE"),
        shows="equal     bronze/orders: 30 rows",
    ),
    Trouble(
        "TIDE-PLAN-001",
        "it shows rows",
        transform_calls("show"),
        "watch",
        seen=PLAN,
        first=returns,
        shows="bronze/orders",
    ),
    Trouble(
        "TIDE-PLAN-001",
        "it counts rows",
        transform_calls("count"),
        "ledger",
        seen=PLAN,
        first=returns,
        shows="run-1",
    ),
    Trouble(
        "TIDE-PLAN-046",
        "state may grow for ever",
        state_is_unbounded,
        "checkpoint doctor",
        seen=planned,
        shows="orders",
    ),
    Trouble(
        "TIDE-USE-001",
        "no project",
        no_project,
        "init",
        seen=asked("--project", "DIR", "validate"),
    ),
    Trouble("TIDE-SINK-002", "others win", LATE.loses, "ledger", seen=raised(LATE.writes), shows="run-1"),
    Trouble(
        "TIDE-RUN-003",
        "closed out",
        LATE.closed_out,
        "checkpoint inspect",
        seen=raised(LATE.writes),
        shows="rewind",
    ),
    Trouble("TIDE-RUN-004", "overtaken", LATE.overtaken, "ledger", seen=raised(LATE.writes), shows="run-2"),
    Trouble(
        "TIDE-SINK-006",
        "restored",
        LATE.restored_under,
        "ledger",
        seen=raised(LATE.writes),
        shows="taken back",
    ),
    Trouble(
        "TIDE-SINK-006",
        "restored",
        LATE.restored_under,
        "checkpoint rewind",
        seen=raised(LATE.writes),
        after=gate,
        values={"BATCH": "1"},
        rows=range(30),
    ),
    Trouble(
        "TIDE-SINK-007",
        "half written",
        half_written(2),
        "checkpoint rewind",
        seen=raised(other_code_goes_on),
        rows=range(30),
    ),
    Trouble(
        "TIDE-SINK-007",
        "half written",
        half_written(0),
        "checkpoint reset",
        seen=raised(other_code_goes_on),
        first=lambda patient: patient.restore_table_by_hand(0),
        rows=range(10),
    ),
    Trouble(
        "TIDE-LINE-004",
        "no lineage service",
        ran,
        "lineage show",
        seen=EMITS,
        values={"MOMENT": "2026-01-01"},
        shows="bronze/orders",
    ),
]


RUNS = Trouble(
    "TIDE-CTRL-008",
    "its stream runs",
    started,
    "stop",
    seen=asked("run", "PIPELINE", "--mode", "incremental"),
    after=nowhere,
)
IS_STOPPED = Trouble(
    "TIDE-CTRL-021", "it is stopped", nothing, "start", seen=asked("suspend", "PIPELINE", "--reason", "x")
)
OTHER_HUB = Trouble(
    "TIDE-HUB-020", "the hub was made again", reads_a_hub, "checkpoint reset", seen=hub_by_the_doctor
)
SERVICE_AWAY = Trouble(
    "TIDE-LINE-001",
    "the lineage service takes nothing",
    ran,
    "lineage emit",
    seen=EMITS,
    values={"MOMENT": "2026-01-01"},
    shows="3 events sent to",
    over=lambda patient: EMITS(patient) == {},
)
LEFT_THE_HUB = Trouble(
    "TIDE-HUB-023",
    "events left unread, and are in the archive",
    fell_behind_the_hub,
    "backfill plan",
    seen=hub_by_the_doctor,
    values={"PIPELINE": "orders"},
    shows="To carry out exactly this",
)
LEAVES_THE_HUB = replace(
    LEFT_THE_HUB,
    title="events are about to leave, and no driver runs",
    command="start",
    ill=falls_behind_the_hub,
    shows="orders",
)
FOLLOWED_BELOW = [RUNS, IS_STOPPED, OTHER_HUB, LEFT_THE_HUB, LEAVES_THE_HUB, SERVICE_AWAY]


@each(TROUBLES)
def test_the_command_of_the_fix_helps(trouble: Trouble, patient: Patient) -> None:
    trouble.follow(patient)


def test_a_stream_that_runs_is_stopped_and_started_again(patient: Patient) -> None:
    RUNS.follow(patient)
    IS_STOPPED.follow(patient)


def test_what_a_lineage_service_did_not_take_is_sent_once_it_does(patient: Patient) -> None:
    with lineage_service() as service:
        patient.drivers.environ(f"{ENVIRONMENT}lineage: {{url: '{service.url}', every: 0 seconds}}\n")
        service.answer = 503
        replace(SERVICE_AWAY, first=lambda _: setattr(service, "answer", 201)).follow(patient)


@pytest.mark.parametrize(
    ("trouble", "partition"),
    [
        (OTHER_HUB, PeerPartition(0, 9)),
        (LEFT_THE_HUB, PeerPartition(50, 99)),
        (LEAVES_THE_HUB, PeerPartition(0, 99)),
    ],
)
def test_a_hub_is_read_from_its_beginning_or_its_archive(
    trouble: Trouble, partition: PeerPartition, patient: Patient
) -> None:
    """Serve the facts of a hub over AMQP from this machine."""
    with HubFactsPeer(partitions={"0": partition}).listening() as peer:
        patient.patch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", peer.connection_string)
        trouble.follow(patient)
