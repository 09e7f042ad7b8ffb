"""A hundred drivers that stop dead and come back while the next one runs; and a few real ones with Spark."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
import yaml

from tests.support.claims import assert_one_winner_each
from tests.support.driver_process import END_TIMEOUT_SECONDS, Drivers, drivers_of
from tests.support.stores import AZURITE, LOCAL, StorePlace
from tests.support.zombies import STEPS, assert_exactly_once, rise
from tidemill.ledger.read import read_ledger
from tidemill.names import Layout

ROUNDS = 100
SEED = 5

# Each round takes half a minute, for two starts of Spark.
ROUNDS_WITH_SPARK = 3

# Made by the source itself, so that no broker is needed: rows that count on, some in each batch.
PIPELINE = {
    "description": "Rows that count on.",
    "owner": "tests",
    "source": {"rate_per_batch": {"rows_per_batch": 10}},
    "sinks": [{"delta": {"table": "bronze/orders", "writer": "arrow"}}],
    "run": {"trigger": "100 milliseconds"},
}


# A round is one start of Python with delta-rs and pyspark: two seconds, on a busy machine some more.
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("store_place", [LOCAL, AZURITE], indirect=True)
def test_a_hundred_zombies_double_and_lose_nothing(
    store_place: StorePlace, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = random.Random(SEED).choices(STEPS, k=ROUNDS)
    endings = rise(store_place, steps)
    assert endings == [75] * ROUNDS
    batches = assert_exactly_once(store_place, steps)
    with capsys.disabled():
        # Print the history of the soak test.
        print(f"\n{store_place.kind}: {batches} batches, stopped at {dict(Counter(steps))}")  # noqa: T201


@pytest.fixture
def drivers(store_place: StorePlace) -> Iterator[Drivers]:
    """Yield drivers of one pipeline on the store, with either writer."""
    folder = store_place.folder / "project"
    for part in ("conf/pipelines", "conf/environments", "spark_apps/transforms"):
        (folder / part).mkdir(parents=True)
    (folder / "conf/environments/local.yaml").write_text(yaml.safe_dump(dict(store_place.keys)))
    for writer in ("arrow", "spark"):
        table = {"table": f"bronze/{writer}", "writer": writer}
        document = {**PIPELINE, "sinks": [{"delta": table}]}
        (folder / f"conf/pipelines/{writer}.yaml").write_text(yaml.safe_dump(document))
    with drivers_of(folder) as started:
        yield started


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_zombies_with_spark_double_and_lose_nothing(
    store_place: StorePlace, drivers: Drivers, writer: str
) -> None:
    older = drivers.start(writer)
    reached = drivers.wait_for_batch(writer, older)
    for _ in range(ROUNDS_WITH_SPARK):
        # Python, its JVM and workers at once, at whatever they do.
        os.killpg(older.process.pid, signal.SIGSTOP)
        newer = drivers.start(writer)
        reached = drivers.wait_for_batch(writer, newer, reached + 1)
        os.killpg(older.process.pid, signal.SIGCONT)
        assert older.wait(END_TIMEOUT_SECONDS) == 75, older.output[-3000:]
        reached = drivers.wait_for_batch(writer, newer, reached)
        older = newer
    assert older.terminate() == 0
    assert_counted_once(store_place, f"bronze/{writer}", batches=drivers.committed(writer) + 1)


def assert_counted_once(place: StorePlace, table: str, batches: int) -> None:
    """Check that each row of this number of source batches, as Spark counts them, is in the table once."""
    path = Layout(place.root).table(table)
    assert place.ids(path, "value") == list(range(10 * batches))
    entries = [commit.entry for commit in reversed(read_ledger(path)) if commit.entry is not None]
    assert [entry.batch_id for entry in entries] == list(range(batches))


def test_of_two_thousand_claims_each_has_one_winner(store_place: StorePlace) -> None:
    assert_one_winner_each(store_place, 2_000)
