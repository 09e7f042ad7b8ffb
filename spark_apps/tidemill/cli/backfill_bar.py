"""How far a backfill has come, beside the driver that carries it out: by its progress in the storage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tidemill.cli.progress_bar import Stand, progress_bar

if TYPE_CHECKING:
    from tidemill.backfill.plan import BackfillPlan
    from tidemill.backfill.progress import Progress
    from tidemill.cli.foreground import Shown
    from tidemill.control.plane import ControlPlane
    from tidemill.control.runtime import StartedDriver

# Seconds between two looks at the storage: each is a request that is paid for.
LOOK_SECONDS = 2.0


def chunks_shown(plane: ControlPlane, plan: BackfillPlan) -> Shown:
    """Shows the chunks of a plan while its driver is followed, wherever that runs."""

    @contextmanager
    def shown(driver: StartedDriver) -> Iterator[Callable[[], None]]:
        with progress_bar(plan.pipeline, "chunks") as show:
            looked_at = float("-inf")

            def look(rest: float = LOOK_SECONDS) -> None:
                nonlocal looked_at
                if time.monotonic() - looked_at < rest:
                    return
                # A store that does not answer must not end the watch: the driver goes on without it.
                with suppress(Exception):
                    show(_stand(plane, plan, driver.run_id))
                looked_at = time.monotonic()

            yield look
            look(rest=0)

    return shown


def stand_of(progress: Progress | None, run_id: str) -> Stand:
    """How far a run is: what another one has finished is done again as a whole."""
    if progress is None or progress.finished_by not in (None, run_id):
        return Stand()
    rows = sum(progress.rows.values())
    return Stand(len(progress.done), progress.chunks, note=f"{rows} rows", left=progress.left)


def _stand(plane: ControlPlane, plan: BackfillPlan, run_id: str) -> Stand:
    from tidemill.backfill.progress import read_progress

    return stand_of(read_progress(plane.store, plane.layout, plan.pipeline, plan.digest), run_id)
