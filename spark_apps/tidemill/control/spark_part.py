"""Parts: Spark jobs of an operation, as a local process next to local drivers, or as a Kubernetes Job.

The command line and Airflow have no Spark. A part is run like a bounded run: it is claimed, so that it runs
once, and proven by the result that it leaves on storage. Its run id is derived from its arguments. So if a
operation was killed while a part ran, the repeated operation finds the part again, running or finished. Jobs
that work on a copy are parts as well, in a separate slot (`driver_command.py`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from tidemill import __version__
from tidemill.control.driver_command import DriverRun, mode_of_part
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.control.runtime import StartedDriver, slot_of
from tidemill.engine.part_result import PartResult, drop_part_result, read_part_result
from tidemill.errors import TidemillError, UnavailableError
from tidemill.names import ASIDE_OUTPUTS
from tidemill.spec.project import Pipeline

if TYPE_CHECKING:
    from tidemill.checkpoint.verbs.repartition import RepartitionState
    from tidemill.control.driver_log import LogPosition
    from tidemill.ledger.table_restore import RestoreTable, TableRestore

# Seconds between two checks of a part, which takes at least ten seconds to start Spark.
POLL_SECONDS = 0.5

# Seconds between two reads of a part's log, if its lines are shown.
LOG_SECONDS = 5.0

# Time before a part that no caller waits for is restarted after an interruption. The cause, such as too
# little memory, usually persists, and each try takes a core for half a minute.
PAUSE_AFTER_FAILURE = timedelta(minutes=10)

# Maximum lines of its log or of cluster events in an error.
SHOWN_LINES = 8


def restoring(pipeline: Pipeline) -> RestoreTable:
    """Return the function that restores a table: through delta-rs, or with Spark if only Spark can.

    Call this before any hold is taken, because it checks that Spark is available if a table needs it.

    Raises:
        TidemillError: If Spark is needed, and a part could not be started.
    """
    from tidemill.ledger.table_restore import (
        has_begun,
        open_existing,
        restore_through_delta_rs,
        spark_needed,
    )

    plane = open_control_plane(pipeline.environment)
    if any(map(_needs_spark, _tables(pipeline))):
        plane.runtime.check(_run_of(pipeline, "table_restore", []))

    def restore(wanted: TableRestore) -> None:
        if not spark_needed(open_existing(wanted)):
            restore_through_delta_rs(wanted)
        elif not has_begun(wanted.path, wanted.base.query_id, wanted.known):
            arguments = ["--restore", wanted.to_text()]
            # The table itself shows if it is restored; the result of an earlier attempt does not.
            forget_part(plane, pipeline, "table_restore", arguments)
            run_part(plane, pipeline, "table_restore", arguments)

    return restore


def repartitioning(pipeline: Pipeline) -> RepartitionState:
    """Return the function that rewrites a checkpoint's state to another number of partitions.

    Raises:
        TidemillError: If a part could not be started.
    """
    plane = open_control_plane(pipeline.environment)
    plane.runtime.check(_run_of(pipeline, "repartition", []))

    def rewrite(checkpoint: str, number: int) -> None:
        run_part(plane, pipeline, "repartition", ["--checkpoint", checkpoint, "--partitions", str(number)])

    return rewrite


def analysing(plane: ControlPlane, pipeline: Pipeline) -> Callable[[], list[dict[str, Any]]]:
    """Return the function that analyses the plan of a pipeline's code, which no driver has run yet.

    It returns the findings about transform and sinks in Spark's plan.
    """
    return partial(run_part, plane, pipeline, "analyse", _analysed(pipeline))


def analyse_again(plane: ControlPlane, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return the findings of a new analysis, because tables may have changed since an earlier one."""
    forget_part(plane, pipeline, "analyse", _analysed(pipeline))
    found: list[dict[str, Any]] = analysing(plane, pipeline)()
    return found


def _analysed(pipeline: Pipeline) -> list[str]:
    # Named by its code, so that the answer for older code is never used for this one.
    return ["--definition", pipeline.definition_digest, "--release", __version__]


def run_part(
    plane: ControlPlane,
    pipeline: Pipeline,
    module: str,
    arguments: Sequence[str],
    tell: Callable[[str], None] | None = None,
) -> Any:
    """Run a part to its end, or find it again, and return its answer.

    1. Return the result if it is already done. 2. Delete the remains of a failed attempt. 3. Start the part,
    or join it if it runs. 4. Wait for its end. 5. Return its result, which it wrote before it ended.

    Args:
        plane: The control plane.
        pipeline: The pipeline.
        module: Module of the part.
        arguments: Its arguments.
        tell: Called with each line of its log.

    Raises:
        TidemillError: The part's own error; TIDE-CTRL-031, if another part of the pipeline runs;
            TIDE-CTRL-032, if it cannot start; TIDE-CKPT-077, if it was killed.
    """
    run = _run_of(pipeline, module, arguments)
    read = partial(read_part_result, plane.store, plane.layout, pipeline.name, run.run_id)
    # 1.
    done = read()
    if done is not None and done.error is None:
        return done.answer
    # 2. and 3., but not while a part runs.
    if plane.running(pipeline.name, slot_of(run.mode)) is None:
        drop_part_result(plane.store, plane.layout, pipeline.name, run.run_id)
    driver = plane.runtime.start(run, pipeline.definition_digest).driver
    if driver.run_id != run.run_id:
        raise _another(driver)
    # 4.
    _wait(plane, driver, tell)
    # 5.
    return (read() or _left_nothing(plane, run)).answer_or_raise()


def begin_part(
    plane: ControlPlane, pipeline: Pipeline, module: str, arguments: Sequence[str], *, again: bool = False
) -> None:
    """Start a part unless another one runs in its slot; does not wait for it.

    Args:
        plane: The control plane.
        pipeline: The pipeline.
        module: Module of the part.
        arguments: Its arguments.
        again: True for a new request, which tries again even after a recent failure.

    Raises:
        TidemillError: TIDE-CKPT-077, if it was interrupted recently; its own error, if it failed recently;
            TIDE-CTRL-032, if it cannot start.
    """
    run = _run_of(pipeline, module, arguments)
    last = plane.runtime.last_start(pipeline.name, slot_of(run.mode))
    if last is not None and last.alive:
        end_stuck(plane, last)
        return
    result = read_part_result(plane.store, plane.layout, pipeline.name, run.run_id)
    if last is not None and last.run_id == run.run_id and not again and _age(last) < PAUSE_AFTER_FAILURE:
        (result or _left_nothing(plane, run)).answer_or_raise()
    if result is not None and result.error is not None:
        drop_part_result(plane.store, plane.layout, pipeline.name, run.run_id)
    plane.runtime.start(run, pipeline.definition_digest)


def end_stuck(plane: ControlPlane, part: StartedDriver) -> None:
    """End a part that cannot start.

    Raises:
        UnavailableError: TIDE-CTRL-032; the part was ended.
    """
    if part.stuck:
        plane.runtime.kill(part)
        raise UnavailableError(
            "TIDE-CTRL-032",
            "The part of this verb that needs Spark cannot start. The same command goes on with it.",
            facts={"pipeline": part.pipeline, "run_id": part.run_id, "reason": part.stuck},
            fix="see to what the reason names, then run the same command again",
            runbook="spark-part-failed",
        )


def forget_part(plane: ControlPlane, pipeline: Pipeline, module: str, arguments: Sequence[str]) -> None:
    """Delete the result of a part, so that it runs again; not while it runs."""
    if not is_at_work(plane, pipeline, module, arguments):
        run_id = _run_of(pipeline, module, arguments).run_id
        drop_part_result(plane.store, plane.layout, pipeline.name, run_id)


def is_at_work(plane: ControlPlane, pipeline: Pipeline, module: str, arguments: Sequence[str]) -> bool:
    """Return True if the part runs now."""
    run = _run_of(pipeline, module, arguments)
    at_work = plane.running(pipeline.name, slot_of(run.mode))
    return at_work is not None and at_work.run_id == run.run_id


def result_of_part(
    plane: ControlPlane, pipeline: Pipeline, module: str, arguments: Sequence[str]
) -> PartResult | None:
    """Return the result of a part; None if it never ran, still runs, or was interrupted."""
    run = _run_of(pipeline, module, arguments)
    return read_part_result(plane.store, plane.layout, pipeline.name, run.run_id)


def _age(driver: StartedDriver) -> timedelta:
    return datetime.now(UTC) - driver.started_at


def _run_of(pipeline: Pipeline, module: str, arguments: Sequence[str]) -> DriverRun:
    digest = hashlib.sha256(json.dumps([module, *arguments]).encode()).hexdigest()[:16]
    return DriverRun(pipeline.name, mode_of_part(module), f"{module}-{digest}", tuple(arguments), module)


def _tables(pipeline: Pipeline) -> list[str]:
    tables = [pipeline.layout.table(sink.table) for sink in pipeline.spec.delta_sinks]
    return [*tables, *(pipeline.layout.aside(output, pipeline.name) for output in ASIDE_OUTPUTS)]


def _needs_spark(path: str) -> bool:
    from tidemill.ledger.read import open_table
    from tidemill.ledger.table_restore import spark_needed

    table = open_table(path)
    return table is not None and bool(spark_needed(table))


def _wait(plane: ControlPlane, driver: StartedDriver, tell: Callable[[str], None] | None) -> None:
    """Wait until the part has ended.

    Raises:
        UnavailableError: TIDE-CTRL-032; the part was ended.
    """
    slot, position, next_look = slot_of(driver.mode), None, time.monotonic()
    while (now := plane.running(driver.pipeline, slot)) is not None and now.run_id == driver.run_id:
        end_stuck(plane, now)
        if tell is not None and time.monotonic() >= next_look:
            position = _tell_news(plane, now, position, tell)
            next_look = time.monotonic() + LOG_SECONDS
        time.sleep(POLL_SECONDS)
    if tell is not None:
        _tell_news(plane, driver, position, tell)


def _tell_news(
    plane: ControlPlane, driver: StartedDriver, since: LogPosition | None, tell: Callable[[str], None]
) -> LogPosition | None:
    """Pass the new lines of its log to `tell`; a log that cannot be read is ignored."""
    try:
        news = plane.runtime.read_log(driver, since)
    except (TidemillError, OSError):
        return since
    for line in news.lines:
        tell(line)
    return news.position


def _another(driver: StartedDriver) -> UnavailableError:
    return UnavailableError(
        "TIDE-CTRL-031",
        "Another part of a verb is at work for this pipeline.",
        facts={"pipeline": driver.pipeline, "run_id": driver.run_id, "process": driver.process},
        fix="wait for its end, then run the same command again",
        runbook="spark-part-failed",
    )


def _left_nothing(plane: ControlPlane, run: DriverRun) -> PartResult:
    """Raise an error with the known facts about a killed part."""
    ended = plane.runtime.last_start(run.pipeline, slot_of(run.mode))
    traces = [] if ended is None else plane.runtime.read_log(ended).lines[-SHOWN_LINES:]
    raise UnavailableError(
        "TIDE-CKPT-077",
        "The part of this verb that Spark does was cut short. The same command goes on with it.",
        facts={
            "pipeline": run.pipeline,
            "part": run.module,
            "ended": "" if ended is None else ended.termination,
            "log": "" if ended is None else ended.log,
            "said": " | ".join(traces),
        },
        fix="see to what it names, then run the same command again",
        runbook="spark-part-failed",
    )
