"""A real driver whose generation an operation closes while it runs ends with 75 and writes nothing more."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.support.commits import TABLE, handed_over
from tests.support.driver_process import END_TIMEOUT_SECONDS, drivers_of
from tests.support.lake import Lake
from tidemill.ledger.table_restore import restore_through_delta_rs

# No version is beyond this one, so the restore also takes back the driver's later commits.
WHATEVER_COMES = 2**31


@pytest.mark.soak
def test_a_driver_that_missed_the_verbs_epoch_ends_when_it_meets_the_closed_generation(
    tmp_path: Path,
) -> None:
    """The driver checks the epochs before the operation claims one, or a hold is released by force."""
    lake = Lake(tmp_path / "lake", None)  # type: ignore[arg-type]  # the driver brings its own session
    pipeline = lake.pipeline(
        "orders",
        source={"rate_per_batch": {"rows_per_batch": 10}},
        sinks=[{"delta": {"table": TABLE}}],
        run={"trigger": "100 milliseconds"},
    )
    table = str(lake.root / "tables" / TABLE)
    with drivers_of(lake.folder) as drivers:
        driver = drivers.start("orders")
        drivers.wait_for_batch("orders", driver, after=2)
        restore_through_delta_rs(handed_over(table, 2, WHATEVER_COMES))
        assert driver.wait(END_TIMEOUT_SECONDS) == 75, driver.output[-3000:]
        receipt = drivers.receipt("orders")
    assert receipt is not None
    assert (receipt.result, (receipt.error or {})["id"]) == ("failed", "TIDE-RUN-003")
    assert (receipt.error or {})["facts"]["generation"] == pipeline.checkpoint.name
    files = DeltaTable(table).file_uris()
    assert sum(pq.read_metadata(file).num_rows for file in files) == 20
