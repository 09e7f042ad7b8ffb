"""Ownership check of file sinks before the first batch: the folders must fit pipeline and checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.outputs import Output
from tidemill.engine.run_context import RunContext
from tidemill.ledger.files_log import Claim
from tidemill.sinks.files_sink import claim_folder, layout_of


def claim_folders(spark: SparkSession, run: RunContext, outputs: Sequence[Output]) -> None:
    """Claim the folder of each file sink.

    Args:
        spark: The session.
        run: The run. No other driver writes its checkpoint.
        outputs: One output for each sink, in the order of the pipeline file.

    Raises:
        GateRefusedError: TIDE-SINK-008 to -011.
    """
    if not any(sink.files for sink in run.pipeline.spec.sinks):
        return
    newest = CheckpointBatches(run.store, run.checkpoint).last_committed()
    for sink, output in zip(run.pipeline.spec.sinks, outputs, strict=True):
        if sink.files is not None:
            columns = {field.name: str(field.type) for field in output.rows.columns}
            mine = Claim(
                root=run.pipeline.layout.root,
                pipeline=run.pipeline.name,
                generation=run.generation,
                after_batch=-1 if newest is None else newest,
                layout=layout_of(sink.files, columns),
            )
            claim_folder(spark, run.pipeline.layout.folder(sink.files.path), mine)
