"""What the daily DAGs do by themselves with checkpoints and tables of an environment."""

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
        description="Age of a pipeline's newest backup at which the next run makes another one, if batches "
        "were committed since.",
    )
    backups: Count = Field(3, le=1000, description="Newest complete backups that stay.")
    generations: NonNegative = Field(2, description="Newest old generations that stay.")
    records: Count = Field(
        100,
        description="Newest receipts, epochs, journal entries and listings of joined folders that stay.",
    )
    trash: Duration = Field(
        timedelta(days=7), validate_default=True, description="How long what was pruned stays in the trash."
    )
    approved_by: Line | None = Field(
        None,
        description="In a protected environment, who has approved that the daily DAGs prune checkpoints and "
        "delete data files that no version needs; without it they only say what they would do.",
    )
