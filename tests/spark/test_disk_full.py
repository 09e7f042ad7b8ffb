"""A disk that takes no more, played by the kernel's limit on file sizes: every write past it fails for real.

A separate full file system would need the right to mount one; this limit works everywhere.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.driver_process import DriverProcess, drivers_of
from tests.support.lake import Lake
from tidemill.ledger.read import read_ledger

# The data file of the large batch is larger, all other files of a batch are smaller.
ONLY_SMALL_FILES = 256 * 1024
# The status fits, so that the driver can say what is wrong; no batch's data does, nor does the log.
ONLY_THE_STATUS = 4 * 1024


@contextmanager
def files_no_larger_than(driver: DriverProcess, size: int) -> Iterator[None]:
    """Limit the driver, its JVM and Python workers."""
    set_limit(driver, size)
    yield
    set_limit(driver, resource.RLIM_INFINITY)


def set_limit(driver: DriverProcess, size: int) -> None:
    leader = psutil.Process(driver.process.pid)
    for process in [leader, *leader.children(recursive=True)]:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def rows(first: int, count: int, size: int) -> list[dict[str, object]]:
    """Return rows of this number of bytes each, as hexadecimal text that does not compress to less."""
    chance = random.Random(first)
    return [{"id": number, "text": chance.randbytes(size).hex()} for number in range(first, first + count)]


def data_files(table: Path) -> set[Path]:
    return set(table.glob("*.parquet"))


def test_a_full_disk_damages_nothing_and_the_driver_goes_on_by_itself_afterwards(lake: Lake) -> None:
    files = {"path": "landing/notes", "format": "json", "schema": "id long, text string"}
    lake.pipeline(
        "notes",
        source={"files": files},
        sinks=[{"delta": {"table": "bronze/notes"}}],
        run={"trigger": "0 seconds"},
    )
    table = lake.root / "tables/bronze/notes"
    lake.land_rows("landing/notes/0.json", rows(1, 1, size=1))
    with drivers_of(lake.folder) as drivers:
        driver = drivers.start("notes")
        drivers.wait_for_batch("notes", driver)
        committed = data_files(table)

        with files_no_larger_than(driver, ONLY_SMALL_FILES):
            lake.land_rows("landing/notes/1.json", rows(100, 1000, size=500))
            status = drivers.wait_for_status("notes", driver, "waiting", "TIDE-STOR-003")
            assert status.error is not None
            assert status.error["runbook"] == "disk-full"
            assert len(read_ledger(str(table))) == 1
            assert data_files(table) == committed
        drivers.wait_for_batch("notes", driver, after=0)
        drivers.wait_for_status("notes", driver, "running")

        with files_no_larger_than(driver, ONLY_THE_STATUS):
            lake.land_rows("landing/notes/2.json", rows(2, 1, size=10_000))
            drivers.wait_for_status("notes", driver, "waiting", "TIDE-STOR-003")
            assert len(read_ledger(str(table))) == 2
        drivers.wait_for_batch("notes", driver, after=1)
        assert driver.terminate() == 0
        receipt = drivers.receipt("notes")

    assert receipt is not None
    assert (receipt.result, receipt.batch_id) == ("clean", 2)
    assert sorted(row["id"] for row in lake.rows("bronze/notes")) == [1, 2, *range(100, 1100)]
    assert [commit.entry.batch_id for commit in read_ledger(str(table)) if commit.entry] == [2, 1, 0]
