"""Pages about a checkpoint that is damaged, or another pipeline's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.support.patient import ORDERS, Patient
from tests.support.runbook_acts import rows
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Act, Story, Told, Warned, each_story

INSPECT = "tidemill checkpoint inspect PIPELINE"
GATE = "tidemill checkpoint gate PIPELINE"
REWIND = "tidemill checkpoint rewind PIPELINE --to BATCH --reason TEXT --apply"
RESTORE = "tidemill checkpoint restore PIPELINE BACKUP --reason TEXT --apply"
FROM_EARLIEST = "tidemill checkpoint reset PIPELINE --from earliest --reason TEXT --apply"
REPAIR = "tidemill checkpoint repair PIPELINE"
REPAIR_NOW = "tidemill checkpoint repair PIPELINE --reason TEXT --apply"
BEHIND, AHEAD, DAMAGED = "checkpoint-behind-table", "checkpoint-ahead-of-table", "checkpoint-damaged"
ANOTHER, DIFFER, REPAIRS = "checkpoint-of-another-pipeline", "checkpoint-offsets-differ", "repair-offsets"
START = "tidemill start PIPELINE"
CKPT = "TIDE-CKPT-"


def torn(*names: str, content: bytes = b"v1\n") -> Act:
    def tear(patient: Patient) -> None:
        patient.ran(4)
        patient.has_backup()
        for name in names:
            (patient.checkpoint / name).write_bytes(content)

    return tear


def lost(*names: str, batches: int = 4) -> Act:
    def lose(patient: Patient) -> None:
        patient.ran(batches)
        patient.has_backup()
        for name in names:
            path = patient.checkpoint / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return lose


def stray_name(patient: Patient) -> None:
    patient.ran(4)
    shutil.copy(patient.checkpoint / "offsets/3", patient.checkpoint / "offsets/003")


def move_the_stray_away(patient: Patient) -> None:
    (patient.checkpoint / "offsets/003").rename(patient.drivers.folder / "003")


def orphan_twin(patient: Patient) -> None:
    patient.ran(4)
    (patient.checkpoint / "offsets/.4.crc").write_bytes(b"crc\0")


def nothing_is_whole(patient: Patient) -> None:
    patient.ran(3)
    patient.has_broker()
    for file in [*(patient.checkpoint / "offsets").iterdir(), *(patient.checkpoint / "commits").iterdir()]:
        file.write_bytes(b"")
    (patient.checkpoint / "metadata").unlink()


def copied_from(patient: Patient) -> None:
    """Replace the pipeline's folder with the folder of another pipeline."""
    patient.ran(3)
    patient.has_backup()
    (patient.checkpoint / "metadata").write_text(json.dumps({"id": "another"}))


def another_topic(patient: Patient) -> None:
    patient.ran(3)
    patient.redeclare("topic: orders", "topic: purchases")
    patient.has_broker(topic="purchases")


def control_files_of_another(patient: Patient) -> None:
    """Replace the control files as `cp -r state/payments state/orders` does."""
    patient.ran(3)
    patient.put_back = patient.keep(patient.state)
    patient.declare(ORDERS.replace("bronze/orders", "bronze/payments"), "payments")
    patient.name = "payments"
    patient.batches.run()
    other = patient.state
    patient.name = "orders"
    shutil.rmtree(patient.state)
    shutil.copytree(other, patient.state)


def own_folder_back(patient: Patient) -> None:
    shutil.rmtree(Path(patient.pipeline.layout.state("orders")))
    patient.put_back()


def error_of_the_gate(patient: Patient) -> str:
    """Return the id of the error that stops the gate itself; empty if there is none."""
    patient.tidemill("checkpoint", "gate", patient.name)
    return patient.tidemill.err.partition(" ")[0]


STORIES = [
    Story(
        DAMAGED,
        "the newest offsets are torn",
        torn("offsets/3"),
        (CKPT + "007",),
        [INSPECT, Warned(GATE, CKPT + "007"), REPAIR, REPAIR_NOW, START],
        over=rows(50),
    ),
    Story(DAMAGED, "metadata is lost", lost("metadata"), (CKPT + "010",), [REWIND, START], over=rows(30)),
    Story(
        DAMAGED,
        "a commit is lost",
        lost("commits/2", "commits/3"),
        (CKPT + "011",),
        [REWIND, START],
        over=rows(30),
    ),
    Story(DAMAGED, "offsets are lost", lost("offsets/3"), (CKPT + "012",), [REWIND, START], over=rows(30)),
    Story(DAMAGED, "a checksum stands alone", orphan_twin, (CKPT + "013",), [REWIND, START], over=rows(30)),
    Story(DAMAGED, "a stray file", stray_name, (CKPT + "014",), [move_the_stray_away, START], over=rows(50)),
    Story(DAMAGED, "sources are lost", lost("sources"), (CKPT + "015",), [RESTORE, START], over=rows(50)),
    Story(
        DAMAGED,
        "nothing is whole and there is no backup",
        nothing_is_whole,
        (CKPT + "007",),
        ["tidemill checkpoint reset PIPELINE --from earliest", FROM_EARLIEST, START],
    ),
    Story(ANOTHER, "a folder was copied", copied_from, (CKPT + "001",), [RESTORE, START], over=rows(40)),
    Story(ANOTHER, "the topic was changed", another_topic, (CKPT + "003",), [FROM_EARLIEST, START]),
    Story(
        ANOTHER,
        "the whole state folder was copied",
        control_files_of_another,
        (CKPT + "006",),
        [own_folder_back, START],
        seen=lambda patient: [error_of_the_gate(patient)],
        over=rows(40),
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
