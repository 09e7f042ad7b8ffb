"""The steps of the page `stream-does-not-start` in which Spark checks a transform.

The command line starts Spark in a separate process, as it does for a user; the drivers are fakes.
"""

from __future__ import annotations

from tests.support.patient import ORDERS, Patient
from tests.support.runbook_acts import batch
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Story, Told, Warned, each_story

CHECK = "tidemill plan PIPELINE --spark"
CODE = "def transform(orders):\n    return orders.selectExpr('kafka_offset AS id'){}\n"


def transform_is(patient: Patient, code: str) -> None:
    file = patient.drivers.folder / "spark_apps/transforms/orders.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)


def cannot_be_run(patient: Patient) -> None:
    """Only its plan shows it: `validate` finds nothing."""
    patient.ran(2)
    transform_is(patient, CODE.format(".orderBy('id')"))
    patient.declare(f"{ORDERS}transform: orders:transform\n")
    assert patient.tidemill("validate", "orders") == 0


def corrected(patient: Patient) -> None:
    transform_is(patient, CODE.format(""))


STORIES = [
    Story(
        "stream-does-not-start",
        "Spark cannot run the transform as a stream",
        cannot_be_run,
        steps=[Warned(CHECK, "TIDE-PLAN-010"), corrected, CHECK, "tidemill start PIPELINE"],
        over=batch(2),
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
