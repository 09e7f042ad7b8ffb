"""A driver that is killed inside a batch is followed by one that misses and doubles nothing."""

from __future__ import annotations

from pathlib import Path

from tests.support.batch_kills import STEPS, batch_kills
from tests.support.kafka import Kafka

# Inside the commit of the first table: the driver has no confirmation, and the second table has no rows.
STEP = "arrow landed"


def test_a_kill_inside_a_batch_loses_and_doubles_nothing_in_any_output(tmp_path: Path, kafka: Kafka) -> None:
    """Quarantine, late rows, two tables of which one takes alerts only, and a topic.

    `make soak` goes through all steps, with either writer first.
    """
    with batch_kills(tmp_path, kafka) as story:
        assert story.kill_at(STEP) == STEPS[STEP]
        story.run_to_the_end()
        story.check()
