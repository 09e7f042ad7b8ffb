"""Pages about advice by measured values; what Spark itself measures is in `tests/spark` and `tests/kafka`."""

from __future__ import annotations

from typing import Any

from deltalake import DeltaTable

from tests.support.measured_batches import write_measured
from tests.support.patient import ORDERS, Patient
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Act, Story, Told, each_story

DOCTOR = "tidemill checkpoint doctor PIPELINE"
STATUS = "tidemill status PIPELINE"
SHOW = "tidemill queries show PIPELINE"
MAINTAIN = "tidemill table maintain TABLE --apply"
PLAN = "tidemill plan PIPELINE"
RESTART = "tidemill restart PIPELINE --reason TEXT"
TUNE = "TIDE-TUNE-"
FULL = {"rows": 1000, "behind": 9_000}
LIMITED = ORDERS.replace("topic: orders", "topic: orders, max_offsets_per_batch: 1000")
SPLIT = ORDERS.replace("topic: orders", "topic: orders, options: {minPartitions: 8}")
TEN_SECONDS = "run: {trigger: 10 seconds}\n"
ALERTS = ORDERS + "  - kafka: {topic: alerts}\n" + TEN_SECONDS


def found(patient: Patient) -> list[str]:
    return list(patient.doctor())


def shown_by_status(patient: Patient) -> list[str]:
    return [finding["id"] for finding in patient.status()["advice"]]


def measured(text: str = ORDERS, **values: Any) -> Act:
    """Return an act after which the pipeline has run with these measured values."""

    def measure(patient: Patient) -> None:
        patient.ran(3, text)
        write_measured(patient.pipeline, **values)

    return measure


def takes_three_triggers(patient: Patient) -> None:
    """Start a broker for the restarted driver."""
    measured(ORDERS + TEN_SECONDS, milliseconds=30_000)(patient)
    patient.has_broker()


def measures(**values: Any) -> Act:
    """Return an act after which the current driver has run ten batches with these values."""

    def measure(patient: Patient) -> None:
        write_measured(patient.pipeline, **values)

    return measure


def makes_a_file_a_batch(patient: Patient) -> None:
    """Lower the limit, because ten thousand batches would take too long."""
    for module in ("source_and_sink_advice", "measured_table"):
        patient.patch.setattr(f"tidemill.checkpoint.doctor.{module}.MANY_SMALL_FILES", 20)
    patient.ran(20)
    DeltaTable(str(patient.table())).create_checkpoint()


def redeclared(text: str) -> Act:
    def declare(patient: Patient) -> None:
        patient.declare(text)

    return declare


STORIES = [
    Story(
        "tuning",
        "longer than the trigger",
        takes_three_triggers,
        (TUNE + "001",),
        [STATUS, DOCTOR, SHOW, redeclared(ORDERS + "run: {trigger: 45 seconds}\n"), PLAN, RESTART],
        seen=found,
    ),
    Story(
        "tuning",
        "the limit holds it back",
        measured(LIMITED, **FULL),
        (TUNE + "002",),
        [redeclared(LIMITED.replace("1000", "7000"))],
        seen=shown_by_status,
    ),
    Story(
        "tuning",
        "a table of many small files",
        makes_a_file_a_batch,
        (TUNE + "013",),
        [DOCTOR, MAINTAIN],
        seen=found,
        goes_on=False,
    ),
    Story(
        "tuning",
        "a start with cold caches",
        measured(first=30_000),
        (TUNE + "014",),
        # Ten batches later, the first one is no longer in the report.
        [DOCTOR, STATUS, measures()],
        seen=found,
        goes_on=False,
    ),
    Story(
        "slow-sink",
        "a topic that takes long",
        measured(ALERTS, milliseconds=30_000, sinks={"bronze/orders": 900, "kafka:alerts": 29_000}),
        (TUNE + "001", TUNE + "011"),
        [DOCTOR, SHOW, redeclared(ORDERS), PLAN, measures(sinks={"bronze/orders": 900})],
        seen=found,
    ),
    Story(
        "skewed-source",
        "one partition lags alone",
        measured(latest={"0": 12, "1": 9_000, "2": 7, "3": 0}),
        (TUNE + "012",),
        [DOCTOR, SHOW, redeclared(SPLIT), PLAN],
        seen=found,
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
