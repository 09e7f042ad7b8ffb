"""The progress of a backfill, read from the storage while its driver runs."""

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

# Seconds between two reads of the storage. Each is a request that costs money.
LOOK_SECONDS = 2.0


def chunks_shown(plane: ControlPlane, plan: BackfillPlan) -> Shown:
    """Return a display of a plan's chunks while its driver runs, on this machine or elsewhere."""

    @contextmanager
    def shown(driver: StartedDriver) -> Iterator[Callable[[], None]]:
        with progress_bar(plan.pipeline, "chunks") as show:
            looked_at = float("-inf")

            def look(rest: float = LOOK_SECONDS) -> None:
                nonlocal looked_at
                if time.monotonic() - looked_at < rest:
                    return
                # A store that does not answer must not end the display, because the driver continues.
                with suppress(Exception):
                    show(_stand(plane, plan, driver.run_id))
                looked_at = time.monotonic()

            yield look
            look(rest=0)

    return shown


def stand_of(progress: Progress | None, run_id: str) -> Stand:
    """Return the progress of a run. Work that another run has finished is repeated completely."""
    if progress is None or progress.finished_by not in (None, run_id):
        return Stand()
    rows = sum(progress.rows.values())
    return Stand(len(progress.done), progress.chunks, note=f"{rows} rows", left=progress.left)


def _stand(plane: ControlPlane, plan: BackfillPlan, run_id: str) -> Stand:
    from tidemill.backfill.progress import read_progress

    return stand_of(read_progress(plane.store, plane.layout, plan.pipeline, plan.digest), run_id)
