"""Offsets that nobody has finished: taken out before a query without batches starts.

Continuous processing notes how far the source was read (`offsets/N`) before the rows are surely written
(`commits/N`), and can be several notes ahead; they plan nothing, nor does a batch that was planned before the
trigger was changed. Where it has finished nothing yet, Spark 4.2 would leave an old `offsets/0` as it is, and
commit it for its own, whatever it has read (ContinuousExecution.addOffset). Where it has, Spark itself takes
later offsets away, as real-time mode does.
"""

from __future__ import annotations

import structlog

from tidemill.checkpoint.procedure.trash import move_to_trash
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.run_context import RunContext

log = structlog.get_logger()


def forget_unfinished(run: RunContext) -> None:
    """Move offsets after the newest commit to the trash, the newest first.

    Only for a driver that has claimed its epoch. Killed in between, the next one does the rest.
    """
    batches = CheckpointBatches(run.store, run.checkpoint)
    committed = batches.last_committed()
    unfinished = [number for number in batches.offset_ids() if committed is None or number > committed]
    if not unfinished:
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
