"""The page about a control plane that is silent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.support.patient import Patient
from tests.support.runbook_acts import batch
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Story, Told, each_story
from tests.support.scraped import scraped
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.reconcile_record import ReconcileRecord, keep_record

PAGE = "control-plane-silent"
SHOW = "tidemill metrics show"
RECONCILED_AT = ("tidemill_reconcile_timestamp_seconds",)


def airflow_is_away(patient: Patient) -> None:
    """Set the last reconciliation to an hour ago; the driver has ended since."""
    patient.ran(2)
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    record = ReconcileRecord(began_at=long_ago, ended_at=long_ago)
    keep_record(patient.plane.store, patient.plane.layout, record)


def too_old(patient: Patient) -> None:
    """Check that the metric is too old, as the alert does."""
    told_at = scraped(patient.tidemill.out)[RECONCILED_AT]
    assert datetime.now(UTC).timestamp() - told_at > 600


def airflow_is_back(patient: Patient) -> None:
    reconcile_streams(patient.plane)


def is_of_the_last_minute(patient: Patient) -> bool:
    batch(2)(patient)
    assert patient.run(SHOW) == 0
    return datetime.now(UTC).timestamp() - scraped(patient.tidemill.out)[RECONCILED_AT] < 60


STORIES = [
    Story(
        PAGE,
        "Airflow stays away, and a stream is started by hand meanwhile",
        airflow_is_away,
        steps=[SHOW, too_old, "tidemill status", "tidemill start PIPELINE --reason TEXT", airflow_is_back],
        over=is_of_the_last_minute,
    )
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
