"""A stream never has two drivers: rounds of user actions and cluster faults, at random moments.

The test watches containers, by the kubelet's times. A pod that is deleted by force may leave its container
running for an unknown time. In that case the tables must show that the older driver wrote nothing after the
newer one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.cluster import until
from tests.support.platform import WINDOWS, Platform
from tests.support.pod_watch import PodWatch, at_once, watching
from tidemill.names import kubernetes_name

NAME = kubernetes_name(WINDOWS)

# Unless --rounds says otherwise.
ROUNDS = 30

# How often each comes in thirty rounds, in an order that the seed decides. Besides, the whole release is
# installed again, once, because that takes a minute or two.
MOVES = {"delete": 9, "force-delete": 9, "scale": 7, "upgrade": 4}
INSTALL_AGAIN = "install again"
SEED = 20261123

# Seconds from one move to the next: from before Spark is up to well into the batches.
EARLIEST, LATEST = 0.5, 12.0

# Rounds without a committed batch before a driver is given the time for one.
PATIENCE = 4

# Seconds for Airflow to start the stream after an install.
STARTED_SECONDS = 500


class Rounds:
    """The moves of one test, and their results."""

    def __init__(self, platform: Platform, watch: PodWatch, chance: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self.committing = 0
        self._platform = platform
        self._watch = watch
        self._chance = chance
        self._without_batch = 0
        self._moves: dict[str, Callable[[], None]] = {
            "delete": lambda: platform.streams.delete("pod", f"{NAME}-0"),
            "force-delete": lambda: platform.streams.delete(
                "pod", f"{NAME}-0", "--force", "--grace-period=0"
            ),
            "scale": self._scale,
            "upgrade": platform.release.upgrade,
            INSTALL_AGAIN: self._install_again,
        }

    def play(self, *moves: str) -> None:
        """Play rounds: make one move in each, and let the driver run until the next."""
        for move in moves:
            self._play(move)

    def _play(self, move: str) -> None:
        before = self._platform.committed(WINDOWS)
        self._moves[move]()
        self._pause()
        if self._without_batch >= PATIENCE:
            self._platform.until_batch(WINDOWS, after=before)
        progressed = self._platform.committed(WINDOWS) > before
        self._without_batch = 0 if progressed else self._without_batch + 1
        self.committing += progressed
        self.done[move] += 1

    def _scale(self) -> None:
        workload = f"statefulset/{NAME}"
        self._platform.streams("scale", workload, "--replicas=0")
        self._pause()
        self._platform.streams("scale", workload, "--replicas=1")

    def _install_again(self) -> None:
        self._platform.release.uninstall()
        self._platform.release.install()
        self._platform.until_broker()
        until(lambda: self._platform.driver(WINDOWS), "the stream is started again", STARTED_SECONDS)

    def _pause(self) -> None:
        """Some seconds, but no longer than it takes to see what must not be: two containers at once."""
        assert not self._watch.two_at_once.wait(self._chance.uniform(EARLIEST, LATEST))


def moves_of(rounds: int, chance: random.Random) -> tuple[list[str], list[str]]:
    """Return this number of moves, before and after the release is reinstalled, which is one of them."""
    moves = chance.choices(list(MOVES), list(MOVES.values()), k=rounds - 1)
    middle = chance.randrange(rounds)
    return moves[:middle], moves[middle:]


# Thirty rounds of up to 12 s, some with a batch to wait for, and one install.
@pytest.mark.timeout(3_000)
def test_whatever_is_done_to_a_stream_never_makes_two_drivers(
    platform: Platform, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    platform.until_healthy(WINDOWS)
    chance = random.Random(SEED)
    before, after = moves_of(pytestconfig.getoption("rounds") or ROUNDS, chance)
    selector = f"tidemill/pipeline={WINDOWS},app.kubernetes.io/component=driver"
    with watching(platform.streams, selector) as watch:
        rounds = Rounds(platform, watch, chance)
        # The broker is uninstalled with the release, so events flow before and after that.
        with platform.events_flow():
            rounds.play(*before)
        rounds.play(INSTALL_AGAIN)
        with platform.events_flow():
            rounds.play(*after)
        platform.until_healthy(WINDOWS)
        assert watch.is_watching()
    assert at_once(watch.lives.values()) == []
    # The watch has seen how the containers of all other lives ended.
    forced = [life for life in watch.lives.values() if life.cut_short]
    assert len(forced) <= rounds.done["force-delete"]
    assert rounds.done == Counter([*before, INSTALL_AGAIN, *after])
    with capsys.disabled():
        came_of_it = (
            f"{len(watch.pods)} pods, {len(watch.lives)} containers, {platform.epochs(WINDOWS)} epochs"
        )
        # A story shows what it went through.
        print(f"\n{dict(rounds.done)}: {came_of_it}, {rounds.committing} rounds with a batch")  # noqa: T201
    platform.assert_exact()
