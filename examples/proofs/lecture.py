"""The lecture's example: a table as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from examples.proofs.example import Example, Result

if TYPE_CHECKING:
    from examples.proofs.stage import Stage

BEFORE = [{"id": number} for number in range(5)]
AFTER = [{"id": number} for number in range(5, 8)]


def table_to_table(stage: Stage) -> Sequence[Result]:
    """The first batch reads the existing rows, and the next one the added rows."""
    stage.table("bronze/input_table", BEFORE)
    with stage.live("table_to_table") as stream:
        stream.wait_until(lambda: stage.ended_batches("table_to_table") == 1, "a batch")
        stream.drain()
    first = stage.rows("silver/output_table", "id")
    stage.table("bronze/input_table", AFTER)
    stage.run("table_to_table")
    return [
        Result("silver/output_table, first", first, [(row["id"],) for row in BEFORE]),
        Result(
            "silver/output_table, then",
            stage.rows("silver/output_table", "id"),
            [(row["id"],) for row in BEFORE + AFTER],
        ),
    ]


EXAMPLES = [
    Example(
        6,
        "lecture",
        "a table, every 2 minutes, in append mode with a checkpoint, into a table",
        ("table_to_table",),
        note="the pipeline's name determines the checkpoint's path; without a trigger, Spark 4.2 starts a "
        "batch as soon as the last one has ended, not every half second",
        proof=table_to_table,
    )
]
