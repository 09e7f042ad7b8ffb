"""The tables that a range is compared with: the published ones, or those with staged rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.progress import read_progress
from tidemill.backfill.staging import staging_of, waits
from tidemill.ledger.read import open_table
from tidemill.names import QUARANTINE_OUTPUT, Layout
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


@dataclass(frozen=True)
class Compared:
    """Tables at one time.

    Args:
        layout: Their location.
        versions: Version of each, by its name in the ledger; None if it does not exist yet.
    """

    layout: Layout
    versions: Mapping[str, int | None]


def compared_now(store: Store, pipeline: Pipeline, plan: BackfillPlan) -> Compared:
    """Return the tables of a pipeline, or of its staged rows if they wait to be published."""
    layout = pipeline.layout
    progress = read_progress(store, layout, pipeline.name, plan.digest)
    if progress is not None and waits(plan, progress):
        layout = staging_of(layout, plan, progress)
    paths = {sink.table: layout.table(sink.table) for sink in pipeline.spec.delta_sinks}
    paths[QUARANTINE_OUTPUT] = layout.quarantine(pipeline.name)
    tables = {name: open_table(path) for name, path in paths.items()}
    return Compared(
        layout, {name: None if table is None else table.version() for name, table in tables.items()}
    )
