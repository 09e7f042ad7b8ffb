"""Offsets that a query without batches has noted and not finished: taken out before the next query starts.

Continuous processing notes how far the source was read (`offsets/N`) before the rows are surely written
(`commits/N`), and can be several notes ahead. They plan nothing. Yet a query of batches would take the newest
for its planned batch, repeat that one alone, and so pass over all rows before it. And a continuous query that
has finished nothing yet would leave an old `offsets/0` as it is and commit it for its own, whatever it has
read (Spark 4.2, ContinuousExecution.addOffset). Where it has finished something, Spark itself takes later
offsets away, as real-time mode does.
"""

from __future__ import annotations

import structlog

from tidemill.checkpoint.procedure.trash import move_to_trash
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.run_context import RunContext

log = structlog.get_logger()


def forget_unfinished(run: RunContext) -> None:
    """Move offsets after the newest commit to the trash, the newest first, unless they plan a batch.

    Only for a driver that has claimed its epoch. Killed in between, the next one does the rest.
    """
    batches = CheckpointBatches(run.store, run.checkpoint)
    committed = batches.last_committed()
    unfinished = [number for number in batches.offset_ids() if committed is None or number > committed]
    newest = batches.offsets(unfinished[-1]) if unfinished else None
    if newest is None or not (run.is_without_batches or newest.is_note):
        return
    layout, name = run.pipeline.layout, run.pipeline.name
    request = f"unfinished-{run.epoch}"
    for number in reversed(unfinished):
        # Its checksum first: one that stands alone looks like damage.
        for file in (f".{number}.crc", str(number)):
            move_to_trash(run.store, layout, name, request, f"{run.checkpoint}/offsets/{file}")
    log.warning(
        "unfinished_offsets_taken_out",
        pipeline=name,
        generation=run.generation,
        committed=committed,
        offsets=unfinished,
        trash=request,
    )
