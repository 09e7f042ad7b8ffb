"""Policy of the daily DAGs for checkpoints and tables of an environment."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from tidemill.spec.strict import Strict
from tidemill.spec.text import Line
from tidemill.spec.units import Count, Duration, NonNegative


class Hygiene(Strict):
    """The policy of `checkpoint_hygiene` and `table_maintenance`."""

    backup_every: Duration = Field(
        timedelta(days=1),
        validate_default=True,
        description="Age of a pipeline's newest backup after which the next run creates another one, if "
        "batches were committed since.",
    )
    backups: Count = Field(3, le=1000, description="Number of complete backups to keep.")
    generations: NonNegative = Field(2, description="Number of old generations to keep.")
    records: Count = Field(
        100,
        description="Number of receipts, epochs, journal entries and joined folders' listings to keep, each.",
    )
    trash: Duration = Field(
        timedelta(days=7), validate_default=True, description="Time that pruned files stay in the trash."
    )
    approved_by: Line | None = Field(
        None,
        description="In a protected environment, the name of the operator who allows the daily DAGs to "
        "prune checkpoints and delete data files that no version needs. Without it, the DAGs only report "
        "what they would delete.",
    )
