"""Pages about the doctor's findings and about retention."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable

from tests.support.patient import ORDERS, Patient
from tests.support.runbook_acts import mended
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Act, Story, Told, Warned, each_story

DOCTOR = "tidemill checkpoint doctor"
DOCTOR_OF = "tidemill checkpoint doctor PIPELINE"
INSPECT = "tidemill checkpoint inspect PIPELINE"
BACKUP = "tidemill checkpoint backup PIPELINE --apply"
PRUNE = "tidemill checkpoint prune PIPELINE --apply"
RELEASE = "tidemill checkpoint release PIPELINE HOLD --reason TEXT --apply"
START = "tidemill start PIPELINE"
STATUS = "tidemill status PIPELINE"
PLAN = "tidemill plan PIPELINE"
CKPT = "TIDE-CKPT-"
DAY, HOUR = "interval 1 days", "interval 1 hours"
KEEPS_LONG = {
    "delta.deletedFileRetentionDuration": "interval 30 days",
    "delta.logRetentionDuration": "interval 30 days",
}


def found(patient: Patient) -> list[str]:
    return list(patient.doctor("--broker"))


def warnings_of_the_plan(patient: Patient) -> list[str]:
    plan = patient.tidemill.json("plan", "orders", "--broker")
    return [warning["id"] for warning in plan["retention"]["warnings"]]


def healthy(patient: Patient) -> None:
    """Write three recent batches, and start a broker that has all records."""
    patient.ran(3)
    patient.has_broker()
    planned_ago(patient, timedelta())


def planned_ago(patient: Patient, ago: timedelta) -> None:
    for file in (patient.checkpoint / "offsets").iterdir():
        version, metadata, *ends = file.read_text().splitlines()
        at = int((datetime.now(UTC) - ago).timestamp() * 1000)
        changed = json.dumps({**json.loads(metadata), "batchTimestampMs": at})
        file.write_text("\n".join([version, changed, *ends]))


def torn(patient: Patient) -> None:
    healthy(patient)
    (patient.checkpoint / "offsets/2").write_text("v1\n")


def as_the_runbook_of_its_cause_says(patient: Patient) -> None:
    finding = patient.doctor()[CKPT + "050"]
    assert (finding["facts"]["cause"], finding["runbook"]) == (CKPT + "007", "checkpoint-damaged")
    assert patient.tidemill("checkpoint", "repair", "orders", "--apply", "--reason", "x") == 0


def never_live(patient: Patient) -> None:
    """Create the folder of a generation that no record names."""
    healthy(patient)
    made = patient.checkpoint.with_name("g0007")
    shutil.copytree(patient.checkpoint, made)
    (made / "metadata").write_text(json.dumps({"id": "another"}))


def copied_by_hand(patient: Patient) -> None:
    healthy(patient)
    shutil.copytree(patient.checkpoint, patient.checkpoint.with_name("g0009"))


def move_the_copy_away(patient: Patient) -> None:
    patient.checkpoint.with_name("g0009").rename(patient.drivers.folder / "g0009")


def crowded(patient: Patient) -> None:
    """Create more old generations than the limit."""
    healthy(patient)
    patient.went_on(8)
    for end in (12, 14, 16, 18):
        verb = ("checkpoint", "reset", "orders", "--from", json.dumps({"orders": {"0": end}}))
        assert patient.tidemill(*verb, "--reason", "x", "--apply") == 0
    files = sum(file.is_file() for file in patient.state.rglob("*"))
    patient.patch.setattr("tidemill.checkpoint.doctor.rules.CROWDED_FILES", files - 1)


def near_the_end_of_retention(patient: Patient) -> None:
    healthy(patient)
    planned_ago(patient, timedelta(days=6.5))


def held(patient: Patient) -> None:
    healthy(patient)
    assert patient.tidemill("checkpoint", "hold", "orders", "--reason", "let me look") == 0
    patient.values["HOLD"] = "by-hand"


def ended_badly(patient: Patient) -> None:
    healthy(patient)
    patient.driver_ends("TIDE-TEST-001", 70)


def declared(run: str = "", **properties: str) -> Act:
    """Return a pipeline with this `run` part, and a table with these properties."""

    def declare(patient: Patient) -> None:
        patient.ran(3, ORDERS + run)
        patient.has_broker()
        if properties:
            DeltaTable(str(patient.table())).alter.set_table_properties(properties)

    return declare


def redeclared(run: str) -> Act:
    def declare(patient: Patient) -> None:
        patient.declare(ORDERS + run)

    return declare


def as_before_the_last_commit(patient: Patient) -> None:
    """Undo the last commit, because delta-rs has no ALTER TABLE … UNSET, which the finding recommends."""
    max((patient.table() / "_delta_log").glob("*.json")).unlink()


def altered(**properties: str) -> Act:
    """Return an act that sets table properties like the finding's ALTER TABLE."""

    def alter(patient: Patient) -> None:
        DeltaTable(str(patient.table())).alter.set_table_properties(properties)

    return alter


def broker_forgets(patient: Patient) -> None:
    patient.ran(3, ORDERS + "run: {trigger: 1 minute, rewindable: 2 days}\n")
    patient.has_broker(retention_ms=3_600_000)


def broker_keeps(patient: Patient) -> None:
    patient.has_broker(retention_ms=604_800_000)


STORIES = [
    Story(
        "checkpoint-doctor",
        "the gate would refuse",
        torn,
        (CKPT + "050",),
        [Warned(DOCTOR, CKPT + "050"), Warned(DOCTOR_OF, CKPT + "050"), as_the_runbook_of_its_cause_says],
        seen=found,
    ),
    Story(
        "checkpoint-doctor", "a folder nobody uses", never_live, (CKPT + "051",), [DOCTOR, PRUNE], seen=found
    ),
    Story(
        "checkpoint-doctor",
        "a copy made by hand",
        copied_by_hand,
        (CKPT + "052",),
        [move_the_copy_away],
        seen=found,
    ),
    Story(
        "checkpoint-doctor",
        "too many files",
        crowded,
        (CKPT + "054",),
        [INSPECT, PRUNE, "tidemill checkpoint prune PIPELINE --trash-days 0 --apply"],
        seen=found,
    ),
    Story("checkpoint-doctor", "no backup", healthy, (CKPT + "056",), [BACKUP], seen=found),
    Story(
        "checkpoint-doctor",
        "it stands still",
        near_the_end_of_retention,
        (CKPT + "057",),
        ["tidemill checkpoint doctor --broker", START],
        seen=found,
    ),
    Story("checkpoint-doctor", "a hold", held, (CKPT + "058",), [RELEASE], seen=found),
    Story(
        "checkpoint-doctor",
        "the last driver ended badly",
        ended_badly,
        (CKPT + "059",),
        [STATUS, mended, START],
        seen=found,
    ),
    Story(
        "retention-policy",
        "more batches than files can be",
        declared("run: {trigger: 1 second, rewindable: 30 days}\n", **KEEPS_LONG),
        (CKPT + "060",),
        [DOCTOR, PLAN, BACKUP, redeclared("run: {trigger: 1 minute, rewindable: 6 hours}\n")],
        seen=warnings_of_the_plan,
    ),
    Story(
        "retention-policy",
        "the table forgets too soon",
        declared("run: {trigger: 10 minutes, rewindable: 5 days}\n", **{"delta.logRetentionDuration": DAY}),
        (CKPT + "061",),
        [altered(**KEEPS_LONG)],
        seen=warnings_of_the_plan,
    ),
    Story(
        "retention-policy",
        "the broker forgets too soon",
        broker_forgets,
        (CKPT + "062",),
        [broker_keeps],
        seen=warnings_of_the_plan,
    ),
    Story(
        "retention-policy",
        "transactions expire",
        declared(**{"delta.setTransactionRetentionDuration": HOUR}),
        (CKPT + "063",),
        [as_before_the_last_commit],
        seen=warnings_of_the_plan,
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
