"""Removal of unfinished offsets before a query without batches starts.

Continuous processing writes how far the source was read (`offsets/N`) before the rows are safely written
(`commits/N`), and can be several files ahead. These offsets plan nothing; neither does a batch that was
planned before the trigger was changed. If continuous processing has no commit yet, Spark 4.2 would keep an
old `offsets/0` and commit it as its own, whatever it has read (ContinuousExecution.addOffset). If it has a
commit, Spark itself removes later offsets, as real-time mode does.
"""

from __future__ import annotations

import structlog

from tidemill.checkpoint.procedure.trash import move_to_trash
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.run_context import RunContext

log = structlog.get_logger()


def forget_unfinished(run: RunContext) -> None:
    """Move offsets after the newest commit to the trash, the newest first.

    Only for a driver that has claimed its epoch. If it is killed during the moves, the next driver moves the
    rest.
    """
    batches = CheckpointBatches(run.store, run.checkpoint)
    committed = batches.last_committed()
    unfinished = [number for number in batches.offset_ids() if committed is None or number > committed]
    if not unfinished:
        return
    layout, name = run.pipeline.layout, run.pipeline.name
    request = f"unfinished-{run.epoch}"
    for number in reversed(unfinished):
        # The checksum first, because a checksum without its file looks like damage.
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
