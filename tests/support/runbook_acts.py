"""Acts that several stories of the runbooks use, on a pipeline and its drivers, and the checks after them."""

from __future__ import annotations

from tests.support.patient import Patient
from tests.support.runbook_story import Act


def ran(batches: int) -> Act:
    """Return an act after which the stream has written this number of batches and was stopped."""

    def run(patient: Patient) -> None:
        patient.ran(batches)

    return run


def runs(patient: Patient) -> None:
    """Write three batches, start a driver that writes the fourth, and a broker that has more records."""
    patient.ran(3)
    patient.has_broker()
    assert patient.tidemill("start", "orders") == 0, patient.tidemill.err


def has_backup(patient: Patient) -> None:
    """Make a backup after three batches, write two more, and start a driver."""
    patient.ran(3)
    patient.has_backup()
    patient.went_on(2)
    assert patient.tidemill("start", "orders") == 0


def waits(error: str) -> Act:
    """Return an act after which the driver waits with this error."""

    def wait(patient: Patient) -> None:
        patient.ran(2)
        patient.driver_waits(error)

    return wait


def ended(error: str, exit_code: int) -> Act:
    """Return an act after which the last driver has ended with this error."""

    def end(patient: Patient) -> None:
        patient.ran(2)
        patient.driver_ends(error, exit_code)

    return end


def mended(patient: Patient) -> None:
    """Fix the cause of the error, so that the next driver, and one that waits, works."""
    patient.drivers.behave(patient.name, "run")


def goes_on_by_itself(patient: Patient) -> None:
    """Let the driver continue without an action of the operator."""
    mended(patient)
    patient.driver_says("running")


def put_back(patient: Patient) -> None:
    """Undo the damage by hand."""
    patient.put_back()


def chosen(batch_id: int) -> Act:
    """Return an act that sets BATCH of the page."""

    def choose(patient: Patient) -> None:
        patient.values["BATCH"] = str(batch_id)

    return choose


def rows(end: int) -> Act:
    """Return an act that checks that every record before `end` is in the table once."""

    def hold(patient: Patient) -> None:
        assert patient.ids() == list(range(end))

    return hold


def batch(number: int) -> Act:
    """Return an act that checks that the running driver has written this batch."""

    def hold(patient: Patient) -> None:
        state = patient.status()
        assert (state["actual"], state["status"]["batch_id"]) == ("running", number)

    return hold
