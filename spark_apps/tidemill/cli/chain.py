"""`tidemill run --with-upstream | --all`: run incremental pipelines in order, with a line for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

from tidemill.cli.output import say

if TYPE_CHECKING:
    from tidemill.control.chain import Chain, Link
    from tidemill.control.plane import ControlPlane


def run_chain(plane: ControlPlane, chain: Chain) -> bool:
    """Run the incremental pipelines of a chain once and return True if all finished their work.

    CTRL-C drains the running driver, and no further driver is started.
    """
    from tidemill.control.chain import Outcome

    outcomes: Counter[str] = Counter()
    well = True
    for link in chain.links(_runner(plane), lambda name: _stands(plane, name)):
        say(f"{link.pipeline}: {_shown(link.outcome)}: {link.told}")
        outcomes[link.outcome] += 1
        well = well and link.is_well
    say(", ".join(f"{outcomes[one]} {_shown(one)}" for one in get_args(Outcome) if outcomes[one]))
    return well


def _shown(outcome: str) -> str:
    return outcome.replace("_", " ")


def _stands(plane: ControlPlane, stream: str) -> str:
    return "runs" if plane.running(stream) is not None else f"does not run; tidemill start {stream}"


def _runner(plane: ControlPlane) -> Callable[[str], Link]:
    from tidemill.cli.foreground import follow, nothing_shown
    from tidemill.control.ask.bounded_run import start_bounded
    from tidemill.control.ask.run_id import new_run_id
    from tidemill.control.ask.run_summary import summarize_run
    from tidemill.control.chain import Link
    from tidemill.control.driver_command import DriverRun
    from tidemill.errors import TidemillError

    def run(name: str) -> Link:
        wanted = DriverRun(name, "incremental", new_run_id("incremental", datetime.now(UTC)))
        try:
            driver = start_bounded(plane, wanted)
        except TidemillError as error:
            return Link(name, "failed", str(error))
        ending = follow(plane, driver, nothing_shown)
        if ending is None:
            return Link(name, "failed", "another run has taken the slot")
        if ending.is_finished:
            return Link(name, "finished", "; ".join(summarize_run(plane, driver)))
        told = f"{ending.cause}; log {driver.log}"
        return Link(name, "stopped" if ending.stopped_early else "failed", told)

    return run
