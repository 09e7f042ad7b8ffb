"""One game day, for the command line and Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pydantic import TypeAdapter

from tidemill.control.ask.run_id import new_run_id
from tidemill.control.driver_command import DriverRun
from tidemill.control.game_day.copy import Copy, check_playable, copied
from tidemill.control.game_day.drills import Drills
from tidemill.control.game_day.results import keep
from tidemill.control.game_day.rule import DrillResult, GameDay, check_drills, playable
from tidemill.control.plane import ControlPlane
from tidemill.control.procedures.run import Asking
from tidemill.control.spark_part import forget_part, is_at_work, run_part
from tidemill.errors import TidemillError
from tidemill.spec.project import Pipeline, resolve_pipeline


def play(
    plane: ControlPlane,
    pipeline: Pipeline,
    asking: Asking,
    drills: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> GameDay:
    """Copy a pipeline, run the drills on the copy, and store the measurements.

    The live pipeline is only read. Where drivers are local, the game day runs in this process. Elsewhere it
    runs in a pod, and repeating a request finds the same game day.

    Args:
        plane: Control plane of the live pipeline.
        pipeline: The live pipeline.
        asking: The requester.
        drills: The drills; by default all.
        tell: Called with each step.

    Raises:
        GateRefusedError: TIDE-CTRL-090.
        UsageError: TIDE-CTRL-091, TIDE-CTRL-093.
        UnavailableError: TIDE-CTRL-092, or TIDE-CTRL-030 without Spark; in a pod, as `run_part`.
    """
    wanted = check_drills(drills)
    check_playable(pipeline)
    plane.own()
    run_id = asking.request_id or new_run_id("game-day", datetime.now(UTC))
    if plane.environment.spec.runtime == "local":
        return rehearse(pipeline, replace(asking, request_id=run_id), wanted, tell)
    words = _words(run_id, asking.asker, wanted)
    day = TypeAdapter(GameDay).validate_python(run_part(plane, pipeline, "game_day", words, tell))
    if day.failed:
        # A repeated request runs again, because something was fixed in between.
        forget_part(plane, pipeline, "game_day", words)
    return day


def is_played(plane: ControlPlane, pipeline: Pipeline, asking: Asking, drills: Sequence[str] = ()) -> bool:
    """Return True if a pod runs the game day of a request now."""
    words = _words(asking.request_id, asking.asker, check_drills(drills))
    return is_at_work(plane, pipeline, "game_day", words)


def rehearse(
    pipeline: Pipeline, asking: Asking, drills: Sequence[str], tell: Callable[[str], None]
) -> GameDay:
    """Run the drills in this process; a failed drill ends the game day, because the copy is then broken.

    Args:
        pipeline: The live pipeline.
        asking: The requester; the request id identifies the game day.
        drills: The drills, in order.
        tell: Called with each step.

    Raises:
        TidemillError: See `play`.
    """
    at = datetime.now(UTC)
    with copied(pipeline, replace(asking, request_id="")) as copy:
        copy.plane.runtime.check(DriverRun(pipeline.name, "stream", "game-day"))
        results = tuple(_results(copy, asking, drills, tell))
    day = GameDay(pipeline.name, asking.request_id, at, asking.asker, results)
    keep(pipeline.layout, day)
    return day


def playable_pipelines(plane: ControlPlane) -> list[str]:
    """Return the declared pipelines with which a game day can run, without unreadable ones."""
    return playable(_resolved(plane))


def _words(run_id: str, by: str, drills: Sequence[str]) -> list[str]:
    """Return the arguments of the pod, which identify its run."""
    return ["--request", run_id, f"--by={by}", *(word for drill in drills for word in ("--drill", drill))]


def _results(
    copy: Copy, asking: Asking, drills: Sequence[str], tell: Callable[[str], None]
) -> Iterator[DrillResult]:
    doing = Drills(copy, asking, tell)
    for drill in ("start", *drills):
        result = doing.do(drill)
        tell(f"{drill}: {result.outcome} after {result.seconds:.1f} s; {result.told}")
        yield result
        if result.outcome == "failed":
            return


def _resolved(plane: ControlPlane) -> Iterator[Pipeline]:
    for name in plane.environment.project.pipeline_names():
        try:
            yield resolve_pipeline(plane.environment, name)
        except TidemillError:
            continue
