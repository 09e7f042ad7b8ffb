"""Pages about sources: topics, files and tables that are not what was read, or not there."""

from __future__ import annotations

import json

import pyarrow as pa
from deltalake import write_deltalake

from tests.support.checkpoints import write_note
from tests.support.patient import ORDERS, Patient
from tests.support.runbook_acts import ended, goes_on_by_itself, mended, put_back, waits
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Story, Told, Warned, each_story
from tidemill.checkpoint.gate.checksum import checksum_of

LEDGER = "tidemill ledger PIPELINE"
GATE = "tidemill checkpoint gate PIPELINE"
START = "tidemill start PIPELINE"
REWIND = "tidemill checkpoint rewind PIPELINE --to BATCH --reason TEXT --apply"
RESTORE = "tidemill checkpoint restore PIPELINE BACKUP --reason TEXT --apply"
PLAN_FROM_EARLIEST = "tidemill checkpoint reset PIPELINE --from earliest"
FROM_EARLIEST = PLAN_FROM_EARLIEST + " --reason TEXT --apply"
FROM_OFFSETS = "tidemill checkpoint reset PIPELINE --from OFFSETS --skip-unread --reason TEXT --apply"
SKIPPING = PLAN_FROM_EARLIEST + " --skip-unread --reason TEXT --apply"
FILES = """
description: Orders in files.
owner: tests
source:
  files: {path: landing, format: json, schema: "id long"}
sinks:
  - delta: {table: bronze/orders}
"""

TABLE_AS_SOURCE = """
description: Reads a table.
owner: tests
source: {delta: {table: bronze/readings}}
sinks:
  - delta: {table: bronze/orders}
"""

CKPT = "TIDE-CKPT-"
AGAIN, EXPIRED, GONE = "topic-recreated", "retention-expired", "source-files-gone"
CHANGED, AWAY = "source-table-changed", "source-unavailable"
NEW_SOURCE, NEW_SINK = "pipeline-changed", "sink-added"


def topic_made_again(patient: Patient) -> None:
    patient.topic_ids = (("orders", "id-1"),)
    patient.ran(3)
    patient.topic_ids = (("orders", "id-2"),)
    patient.has_broker(end=1000, ids={"orders": "id-2"})


def topic_truncated(patient: Patient) -> None:
    patient.ran(3)
    patient.has_broker(end=15)


def topic_restored_from_a_mirror(patient: Patient) -> None:
    """Replace the topic by another one of the same name, with the old offsets."""
    topic_made_again(patient)
    patient.values["OFFSETS"] = json.dumps({"orders": {"0": 30}})


def another_cluster(patient: Patient) -> None:
    """Let the environment name other brokers, whose topic has the old offsets."""
    patient.cluster = "south"
    patient.ran(3)
    patient.put_back = lambda: patient.has_broker(cluster="south")
    patient.has_broker(cluster="north")
    patient.values["OFFSETS"] = json.dumps({"orders": {"0": 30}})


def fewer_partitions(patient: Patient) -> None:
    patient.declare()
    before = json.dumps({"orders": {"0": 0, "1": 0}})
    (patient.checkpoint / "sources/0").mkdir(parents=True)
    (patient.checkpoint / "sources/0/0").write_text("\0v1\n" + before)
    patient.went_on(3)
    patient.has_broker(end=1000)


def moved(patient: Patient) -> None:
    patient.cluster = "north"


def retention_expired(patient: Patient) -> None:
    patient.ran(3)
    patient.has_broker(first=70, end=1000)


def landed(patient: Patient, *numbers: int) -> None:
    folder = patient.drivers.folder / ".data/landing"
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        (folder / f"{number}.json").write_text('{"id": 1}\n')


def files_gone(patient: Patient) -> None:
    """Plan a batch of two files without finishing it, and delete one of them."""
    patient.declare(FILES)
    for number in range(2):
        landed(patient, number)
        patient.batches.run()
    patient.has_backup()
    landed(patient, 2, 3)
    patient.batches.plan()
    file = patient.drivers.folder / ".data/landing/2.json"
    patient.put_back = patient.keep(file)
    file.unlink()


def first_file_gone(patient: Patient) -> None:
    """Plan the first batch without finishing it, and delete its only file."""
    patient.declare(FILES)
    landed(patient, 0)
    patient.batches.plan()
    (patient.drivers.folder / ".data/landing/0.json").unlink()


def entry_of_the_log_lost(patient: Patient) -> None:
    files_gone(patient)
    (patient.checkpoint / "sources/0/1").unlink()


def archived_before_the_first_start(patient: Patient) -> None:
    patient.declare(FILES)
    landed(patient, 1, 2)
    folder = patient.drivers.folder / ".data/landing"
    archived = patient.drivers.folder / ".data/archived/landing/1.json"
    archived.parent.mkdir(parents=True)
    (folder / "1.json").rename(archived)
    patient.put_back = lambda: archived.rename(folder / "1.json")


def read_readings(patient: Patient) -> None:
    write_readings(patient)
    patient.ran(3, TABLE_AS_SOURCE)


def write_readings(patient: Patient, mode: str = "append") -> None:
    (patient.drivers.folder / ".data").mkdir(exist_ok=True)
    rows = pa.table({"id": [1, 2]})
    write_deltalake(str(patient.drivers.folder / ".data/tables/bronze/readings"), rows, mode=mode)  # type: ignore[call-overload]


def source_made_again(patient: Patient) -> None:
    read_readings(patient)
    table = patient.table("bronze/readings")
    patient.put_back = lambda: table.with_name("readings_before").rename(table)
    table.rename(table.with_name("readings_before"))
    write_readings(patient)


def source_dropped(patient: Patient) -> None:
    read_readings(patient)
    table = patient.table("bronze/readings")
    patient.put_back = lambda: table.with_name("readings_before").rename(table)
    table.rename(table.with_name("readings_before"))


def another_source(patient: Patient) -> None:
    """Let the pipeline read files instead of the topic."""
    patient.ran(3)
    landed(patient, 1)
    patient.put_back = lambda: patient.declare(ORDERS)
    patient.declare(FILES)


def noted_without_batches(patient: Patient) -> None:
    """Run it with `trigger: {continuous: …}`, which records offsets without planning a batch."""
    patient.ran(3)
    for number in range(3):
        note = write_note(patient.checkpoint, number, {"orders": {"0": 10 * (number + 1)}})
        note.with_name(f".{number}.crc").write_bytes(checksum_of(note.read_bytes()))
    patient.values["OFFSETS"] = json.dumps({"orders": {"0": 30}})


def sink_added(patient: Patient) -> None:
    patient.ran(3)
    patient.has_broker()
    patient.put_back = lambda: patient.declare(ORDERS)
    patient.declare(ORDERS + "  - delta: {table: silver/orders}\n")


def in_a_pipeline_of_its_own(patient: Patient) -> None:
    """Declare a separate pipeline for the new table, which reads the source from its beginning."""
    patient.put_back()
    patient.declare(ORDERS.replace("bronze/orders", "silver/orders"), "orders_silver")
    assert patient.tidemill("checkpoint", "gate", "orders_silver") == 0


def credentials_refused(patient: Patient) -> None:
    patient.ran(2)
    patient.driver_ends("TIDE-SRC-003", 64)


def batch_number_rises(patient: Patient) -> None:
    state = patient.status()
    assert state["actual"] in ("running", "waiting")
    assert state["status"]["batch_id"] == 2


STORIES = [
    Story(
        AGAIN,
        "made again with more records",
        topic_made_again,
        (CKPT + "021",),
        [LEDGER, PLAN_FROM_EARLIEST, FROM_EARLIEST, START],
    ),
    Story(AGAIN, "truncated", topic_truncated, (CKPT + "021",), [FROM_EARLIEST, START]),
    Story(
        AGAIN,
        "restored from a mirror",
        topic_restored_from_a_mirror,
        (CKPT + "021",),
        [
            "tidemill ledger PIPELINE --json",
            FROM_OFFSETS,
            START,
        ],
        over=lambda patient: patient.ids() == list(range(40)),
    ),
    Story(AGAIN, "other brokers by mistake", another_cluster, (CKPT + "095",), [put_back, START]),
    Story(
        AGAIN,
        "moved to other brokers",
        another_cluster,
        (CKPT + "095",),
        [
            FROM_OFFSETS,
            moved,
            START,
        ],
        over=lambda patient: patient.ids() == list(range(40)),
    ),
    Story(
        AGAIN, "made again with fewer partitions", fewer_partitions, (CKPT + "022",), [FROM_EARLIEST, START]
    ),
    Story(
        EXPIRED,
        "records are gone",
        retention_expired,
        (CKPT + "020",),
        [Warned(GATE, CKPT + "020"), PLAN_FROM_EARLIEST, SKIPPING, START],
        over=lambda patient: patient.ids() == [*range(30), *range(70, 80)],
    ),
    Story(GONE, "a file was moved away", files_gone, (CKPT + "024",), [put_back, START]),
    Story(
        GONE,
        "files were archived for another pipeline",
        archived_before_the_first_start,
        (CKPT + "105",),
        [put_back, START],
    ),
    Story(GONE, "a file is gone for good", files_gone, (CKPT + "024",), [REWIND, START]),
    Story(GONE, "the first file is gone for good", first_file_gone, (CKPT + "024",), [FROM_EARLIEST, START]),
    Story(GONE, "an entry of the log is lost", entry_of_the_log_lost, (CKPT + "024",), [RESTORE, START]),
    Story(CHANGED, "dropped by mistake", source_dropped, (CKPT + "023",), [put_back, START]),
    Story(CHANGED, "made again", source_made_again, (CKPT + "023",), [FROM_EARLIEST, START]),
    Story(
        "pipeline-changed",
        "the source was changed by mistake",
        another_source,
        (CKPT + "025",),
        [put_back, START],
    ),
    Story(
        "pipeline-changed",
        "batches after continuous processing",
        noted_without_batches,
        (CKPT + "098",),
        ["tidemill checkpoint reset PIPELINE --from OFFSETS --reason TEXT --apply", START],
    ),
    Story(NEW_SOURCE, "the source was changed", another_source, (CKPT + "025",), [FROM_EARLIEST, START]),
    Story(
        "sink-added",
        "both may begin anew",
        sink_added,
        (CKPT + "028",),
        [PLAN_FROM_EARLIEST, FROM_EARLIEST, START],
    ),
    Story(
        "sink-added", "a pipeline of its own", sink_added, (CKPT + "028",), [in_a_pipeline_of_its_own, START]
    ),
    *(
        Story(
            AWAY,
            f"the driver waits with {error}",
            waits(error),
            (error,),
            ["tidemill status", "tidemill status PIPELINE --json", goes_on_by_itself],
            seen=Patient.told_by_status,
            over=batch_number_rises,
        )
        for error in ("TIDE-SRC-001", "TIDE-SRC-002", "TIDE-SRC-005")
    ),
    Story(
        AWAY,
        "credentials are refused",
        credentials_refused,
        ("TIDE-SRC-003",),
        [mended, START],
        seen=Patient.told_by_status,
        over=batch_number_rises,
    ),
    Story(
        "files-unreadable",
        "a file that Spark reads is damaged",
        ended("TIDE-SRC-011", 65),
        ("TIDE-SRC-011",),
        ["tidemill status PIPELINE", mended, START],
        seen=Patient.told_by_status,
        over=batch_number_rises,
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
