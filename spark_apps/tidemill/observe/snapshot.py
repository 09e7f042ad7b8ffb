"""Content of storage about all pipelines of an environment at one time."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from tidemill.checkpoint.query_report import QueryReport, read_query_report
from tidemill.checkpoint.status import Status, read_status
from tidemill.control.decide.reconcile_record import ReconcileRecord, read_record
from tidemill.names import PIPELINE_PATTERN, Layout
from tidemill.storage.store import Store

# Pipelines read in parallel. An object store answers in some 20 ms, so 1,000 pipelines of three objects each
# take 4 s.
AT_ONCE = 16


@dataclass(frozen=True)
class PipelineSeen:
    """One pipeline.

    Args:
        status: Status of its newest driver; None if none ever ran.
        query: That driver's report about its query; None if it was not requested.
        holds: Number of holds that forbid its start.
        readable: True if all of it could be read.
    """

    pipeline: str
    status: Status | None = None
    query: QueryReport | None = None
    holds: int = 0
    readable: bool = True


@dataclass(frozen=True)
class Snapshot:
    """All pipelines that ever ran.

    Args:
        began_at: Begin of reading.
        ended_at: End of reading.
        pipelines: The pipelines.
        reconciliation: The newest one; None if there was none, or if it cannot be read.
    """

    began_at: datetime
    ended_at: datetime
    pipelines: tuple[PipelineSeen, ...] = ()
    reconciliation: ReconcileRecord | None = None


def read_pipelines(store: Store, layout: Layout, with_queries: bool) -> tuple[PipelineSeen, ...]:
    """Return all pipelines; one that cannot be read does not affect the others.

    Args:
        store: The storage.
        layout: Its paths.
        with_queries: True to read the drivers' query reports as well.
    """
    # Other files in the folder are not pipelines.
    names = [name for name in store.list_names(layout.states) if re.fullmatch(PIPELINE_PATTERN, name)]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return tuple(threads.map(partial(_see, store, layout, with_queries), names))


def read_reconciliation(store: Store, layout: Layout) -> ReconcileRecord | None:
    """Return the newest reconciliation's record; None if it is damaged, until the next one replaces it."""
    try:
        return read_record(store, layout)
    except Exception:  # noqa: BLE001  # an unreadable file must not hide the rest
        return None


def _see(store: Store, layout: Layout, with_queries: bool, pipeline: str) -> PipelineSeen:
    try:
        return PipelineSeen(
            pipeline,
            read_status(store, layout, pipeline),
            read_query_report(store, layout, pipeline) if with_queries else None,
            len(store.list_names(layout.holds(pipeline))),
        )
    except Exception:  # noqa: BLE001  # one damaged file must not hide the others
        return PipelineSeen(pipeline, readable=False)
