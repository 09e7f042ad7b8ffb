"""Every step of a batch, killed by SIGKILL with either writer in either place, in an order of chance."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.batch_kills import STEPS, batch_kills
from tests.support.kafka import Kafka

SEED = 31


# Ten lives of about 15 s each, and a margin for a busy machine.
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("writers", "streams"),
    [(("arrow", "spark"), 1), (("arrow", "arrow"), 1), (("spark", "spark"), 1), (("arrow", "spark"), 2)],
)
def test_kills_at_every_step_lose_and_double_nothing(
    tmp_path: Path, kafka: Kafka, writers: tuple[str, str], streams: int
) -> None:
    missing = {"arrow", "spark"} - {*writers}
    missing |= {"files_written"} if "arrow" not in writers else set()
    # Several streams have no table of late rows.
    missing |= {"late_set_aside"} if streams > 1 else set()
    steps = [step for step in STEPS if step.partition(" ")[0] not in missing]
    random.Random(SEED).shuffle(steps)
    with batch_kills(tmp_path, kafka, writers, streams) as story:
        for step in steps:
            came = story.kill_at(step)
            if writers == ("arrow", "spark"):
                expected = STEPS[step] if story.keeps_late else STEPS[step][:1] + STEPS[step][2:]
                assert (step, came) == (step, expected)
        story.run_to_the_end()
        story.check()
