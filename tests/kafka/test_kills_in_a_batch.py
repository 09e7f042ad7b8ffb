"""A driver that is killed anywhere inside a batch is followed by one that misses and doubles nothing."""

from __future__ import annotations

from pathlib import Path

from tests.support.batch_kills import STEPS, batch_kills
from tests.support.kafka import Kafka

# One life of a real driver for each; `make soak` goes through all steps, with either writer first.
LIVES = ("late_set_aside 1", "arrow landed", "spark landed")


def test_a_kill_inside_a_batch_loses_and_doubles_nothing_in_any_output(tmp_path: Path, kafka: Kafka) -> None:
    """Quarantine, late rows, two tables of which one takes alerts only, and a topic."""
    with batch_kills(tmp_path, kafka) as story:
        for step in LIVES:
            assert story.kill_at(step) == STEPS[step]
        story.run_to_the_end()
        story.check()
