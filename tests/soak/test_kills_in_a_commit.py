"""Real drivers that a SIGKILL ends while they commit, with both writers, on every kind of store."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver_process import START_TIMEOUT_SECONDS, DriverProcess, Drivers, drivers_of
from tests.support.jvm_programs import compile_class
from tests.support.killing_driver import killing, killing_driver_command
from tests.support.killing_proxy import KillingProxy, Trap, killing_proxy
from tests.support.lake import Lake
from tests.support.stores import LOCAL, StorePlace
from tidemill.ledger.read import read_ledger
from tidemill.names import Layout

TABLES = {"arrow": "bronze/readings", "spark": "silver/readings"}

# Steps of a batch in order, with the number of batches by which the first table is then ahead of the second
# one. Each driver repeats what the previous one left unfinished.
AHEAD = {
    "files_written 1": 0,
    "arrow asked": 0,
    "arrow landed": 1,
    "committed 1": 1,
    "spark asked": 1,
    "spark landed": 0,
    "committed 2": 0,
}


@dataclass
class Commits:
    """One pipeline with a table of each writer."""

    place: StorePlace
    drivers: Drivers
    classes: Path
    proxy: KillingProxy | None
    landed: int = 0

    @property
    def layout(self) -> Layout:
        return Layout(self.place.root)

    def land(self, files: int) -> None:
        """Write files, each of which is a batch of two rows."""
        for _ in range(files):
            rows = [{"id": 2 * self.landed}, {"id": 2 * self.landed + 1}]
            content = "".join(json.dumps(row) + "\n" for row in rows).encode()
            self.place.open().write(f"{self.place.root}/landing/{self.landed:03}.json", content)
            self.landed += 1

    def newest(self) -> list[int]:
        """Return newest batch by the ledger of each table."""
        ledgers = [read_ledger(self.layout.table(table)) for table in TABLES.values()]
        return [ledger[0].entry.batch_id if ledger and ledger[0].entry else -1 for ledger in ledgers]  # type: ignore[misc]

    def kill_at(self, step: str) -> None:
        # The one that is repeated, and the one after.
        self.land(2)
        batch_id = max(self.newest()) + 1
        place, _, moment = step.partition(" ")
        if place in TABLES and self.proxy is not None:
            self._killed_from_outside(TABLES[place], moment)
        else:
            drivers = replace(
                self.drivers,
                variables=killing(step, batch_id, self.classes),
                command=killing_driver_command,
            )
            self._killed(drivers.start("readings", "incremental"))

    def _killed_from_outside(self, table: str, moment: str) -> None:
        assert self.proxy is not None
        self.proxy.trap = trap = Trap(table, moment)
        driver = self.drivers.start("readings", "incremental")
        trap.prey = driver
        self._killed(driver)
        assert trap.sprung.is_set()

    def _killed(self, driver: DriverProcess) -> None:
        assert driver.wait(START_TIMEOUT_SECONDS) == -signal.SIGKILL, driver.output[-3000:]


@pytest.fixture
def commits(tmp_path: Path, store_place: StorePlace, request: pytest.FixtureRequest) -> Iterator[Commits]:
    with ExitStack() as stack:
        keys: dict[str, Any] = dict(store_place.keys)
        proxy = None
        if store_place.kind != LOCAL:
            ((kind, access),) = keys["storage"].items()
            proxy = stack.enter_context(killing_proxy(access["endpoint"]))
            keys["storage"] = {kind: {**access, "endpoint": proxy.endpoint}}
        lake = Lake(tmp_path / "lake", None, environment=keys)  # type: ignore[arg-type]
        lake.pipeline(
            "readings",
            source={
                "files": {"path": "landing", "format": "json", "schema": "id long", "max_files_per_batch": 1}
            },
            sinks=[{"delta": {"table": table, "writer": writer}} for writer, table in TABLES.items()],
            run={"mode": "incremental"},
        )
        classes = compile_class("KillingLogStore", tmp_path / "classes")
        drivers = stack.enter_context(drivers_of(lake.folder))
        yield Commits(store_place, drivers, classes, proxy)


# Eight lives of a driver.
@pytest.mark.timeout(900)
def test_a_kill_at_any_step_of_a_commit_loses_and_doubles_nothing(commits: Commits) -> None:
    for step, ahead in AHEAD.items():
        commits.kill_at(step)
        first, second = commits.newest()
        assert (step, first - second) == (step, ahead)
    driver = commits.drivers.start("readings", "incremental")
    assert driver.wait(START_TIMEOUT_SECONDS) == 0, driver.output[-3000:]
    for table in TABLES.values():
        assert commits.place.ids(commits.layout.table(table)) == list(range(2 * commits.landed))
        batches = [c.entry.batch_id for c in read_ledger(commits.layout.table(table)) if c.entry]
        assert batches == list(range(max(commits.newest()), -1, -1))
