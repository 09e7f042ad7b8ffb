"""Random histories of runs, crashes, maintenance and rewinds: table and gate always agree with the model."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.pipelines_on_disk import ROWS, Killed, PipelineOnDisk
from tests.support.stores import local_place
from tests.unit.checkpoint.test_rewind import MOMENTS, rewind
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.verbs.rewind import Target

SEED = 20261121
HISTORIES = 8
HISTORIES_OF_A_SOAK = 100
# Runs and rewinds of one history: enough for rewinds below rewinds.
EVENTS = 7


class RandomHistory:
    """One pipeline; its table must hold the rows of batches 0 to `newest`, once."""

    def __init__(self, orders: PipelineOnDisk, chance: random.Random) -> None:
        self.orders, self.chance = orders, chance
        self.newest = chance.randint(1, 4)
        self.rewinds = 0
        # Generations that were left, each with its newest batch.
        self.left: list[tuple[str, int]] = []
        orders.ran(self.newest + 1)

    def go_on(self) -> None:
        """Run a random next step."""
        acts = (self.run, self.run, self.crash, self.compact, self.rewind, self.rewind, self.undo)
        self.chance.choice(acts)()
        check(gather_facts(self.orders.store, self.orders.resolved, self.orders.live))
        assert self.orders.ids == list(range(ROWS * (self.newest + 1)))

    def run(self) -> None:
        end = self.newest + 1 + self.chance.randint(1, 3)
        self.orders.ran_on(self.newest + 1, end, generation=self.orders.live)
        self.newest = end - 1

    def crash(self) -> None:
        """Between the table's commit and the checkpoint's: a start repeats the batch, a rewind undoes it."""
        self.run()
        name = f"{self.orders.state}/{self.orders.live}/commits/{self.newest}"
        held = self.orders.store.read(name)
        assert held is not None
        self.orders.store.delete(name)
        if self.chance.random() < 0.5:
            self.orders.store.write(name, held)
        else:
            # The batch is in the table and was never finished.
            self.newest -= 1
            self.to(self.newest)

    def compact(self) -> None:
        self.orders.compact()

    def rewind(self) -> None:
        self.to(self.chance.randint(0, self.newest))

    def undo(self) -> None:
        """Rewind to an older generation, as it was at its end."""
        if self.left:
            generation, newest = self.chance.choice(self.left)
            self.to(newest, generation)

    def to(self, batch_id: int, generation: str = "") -> None:
        """Rewind with kills at some steps."""
        self.rewinds += 1
        self.left.append((self.orders.live, self.newest))
        target = Target(batch_id, generation=generation)
        for moment in self.chance.sample(MOMENTS, self.chance.randint(0, 2)):
            try:
                rewind(self.orders, target, kill_at=moment, number=self.rewinds)
            except Killed:
                continue
        rewind(self.orders, target, number=self.rewinds)
        self.newest = batch_id


@pytest.mark.parametrize(
    "number",
    [
        *range(HISTORIES),
        *(pytest.param(n, marks=pytest.mark.soak) for n in range(HISTORIES, HISTORIES_OF_A_SOAK)),
    ],
)
def test_a_random_history_ends_as_the_model_says(tmp_path: Path, number: int) -> None:
    (tmp_path / "store").mkdir()
    place = local_place(tmp_path / "store")
    history = RandomHistory(PipelineOnDisk(place), random.Random(f"{SEED} {number}"))
    for _ in range(EVENTS):
        history.go_on()
