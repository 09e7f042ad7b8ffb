"""Mode, trigger, schedule and limits of a pipeline's runs: `run: {mode, trigger, …}`."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from tidemill.spec.poison import DEFAULT_MOST, LARGEST_MOST
from tidemill.spec.schedule import Schedule
from tidemill.spec.state_store import StateStore
from tidemill.spec.strict import Strict
from tidemill.spec.text import SizeName
from tidemill.spec.trigger import DEFAULT_TRIGGERS, DeclaredTrigger, Trigger
from tidemill.spec.units import SHORTEST_PATIENCE, Count, Duration, Patience
from tidemill.spec.without_batches import WITHOUT_BATCHES


class Run(Strict):
    """Mode, trigger, schedule, size and limits of the pipeline's runs."""

    mode: Literal["stream", "incremental"] = Field(
        "stream", description="stream: runs all the time. incremental: scheduled runs that end."
    )
    trigger_: DeclaredTrigger | None = Field(
        None,
        alias="trigger",
        description="For mode stream: minimum time between the starts of two batches. The default is "
        "`0 seconds`, as in Spark: a batch starts as soon as the last one has ended and there is data. A "
        "longer interval, e.g. `10 seconds`, makes fewer and larger files. `{continuous: 1 second}` and "
        "`{real_time: 5 minutes}` write each row as it arrives, with fewer guarantees. For mode incremental: "
        "available_now (the default) or once.",
    )
    progress_within: Patience | None = Field(
        None,
        description="Maximum time that a stream may go without committing a batch or finding its source "
        "empty. After that, it counts as making no progress. Default: the environment's value or three "
        "triggers, whichever is longer.",
    )
    schedule: Schedule | None = Field(
        None, description="For mode incremental only: cron expression in UTC, or a preset such as @daily."
    )
    deadline: Duration | None = Field(
        None,
        description="For mode incremental: maximum time from queueing a run to its end. A late run "
        "continues, and is reported to the channels in the environment's `notify`.",
    )
    asset_every: Duration | None = Field(
        None,
        description="For mode stream: minimum time between two Airflow asset events of a table. An event "
        "covers all commits since the last one and starts the DAGs that are scheduled on the asset. Without "
        "this key, a stream emits no asset events.",
    )
    size: SizeName = Field("small", description="Driver size named in the environment.")
    # Each partition of a stateful operator is a separate state store, so thousands are a mistake.
    shuffle_partitions: Count = Field(
        2,
        le=4096,
        description="Number of partitions of stateful operators. It is fixed when the checkpoint is created; "
        "Spark ignores later changes.",
    )
    state_store: StateStore = Field(
        "rocksdb",
        description="State store of stateful operators. rocksdb: on disk and outside the heap. memory: in "
        "the heap, for a few megabytes of state. It is fixed when the checkpoint is created. "
        "`transformWithState` and `tidemill checkpoint repartition` need rocksdb.",
    )
    unbounded_state: Literal["refused", "accepted"] = Field(
        "refused",
        description="Whether an inner join of two streams, or a deduplication, may run without a bound in "
        "event time. Its state then keeps every row or key forever. accepted: it runs, `tidemill plan NAME "
        "--spark` warns (TIDE-PLAN-046), and `tidemill checkpoint doctor` reports how fast the state grows. "
        "Outer and semi joins always need the bound, because without it they never learn that a row has no "
        "match.",
    )
    spark_ui: bool | None = Field(
        None,
        description="If true, the pipeline's drivers serve Spark's UI. Default: `spark_ui` of the "
        "environment.",
    )
    rewindable: Duration | None = Field(
        None,
        description="How far back the pipeline can be rewound, e.g. `3 days`. Default: 4 hours, or less "
        "if that would be too many files. `tidemill plan` shows how much is kept.",
    )

    on_poison: Literal["stop", "quarantine"] = Field(
        "stop",
        description="Handling of a topic's record at which the transform fails, for example by a division by "
        "zero or an exception in a Python function. stop: each start repeats the batch and fails. "
        "quarantine: the batch is run again in parts until the record is found. The record goes to the "
        "quarantine with the error (`transform_failed`), and the stream continues. Not for transforms that "
        "keep state.",
    )
    max_poison_records: Count | None = Field(
        None,
        le=LARGEST_MOST,
        description=f"Maximum number of records that the same code may leave out in all batches; "
        f"{DEFAULT_MOST} by default. One more stops the pipeline with a list of them. A backfill has a "
        "separate limit of the same size.",
    )

    @model_validator(mode="after")
    def _schedule_fits_mode(self) -> Self:
        if self.schedule is not None and self.mode != "incremental":
            raise ValueError("`schedule` is for mode incremental; a stream runs all the time")
        if self.deadline is not None and self.mode != "incremental":
            raise ValueError("`deadline` is for mode incremental; a stream has `progress_within`")
        if self.asset_every is not None and self.mode != "stream":
            raise ValueError("`asset_every` is for mode stream; each incremental run tells what it wrote")
        return self

    @field_validator("asset_every")
    @classmethod
    def _not_within_a_minute(cls, every: timedelta | None) -> timedelta | None:
        if every is not None and every < SHORTEST_PATIENCE:
            raise ValueError("expected at least 1 minute: each look is a task")
        return every

    @model_validator(mode="after")
    def _bound_has_a_use(self) -> Self:
        if self.max_poison_records is not None and self.on_poison == "stop":
            raise ValueError("`max_poison_records` goes with `on_poison: quarantine`")
        return self

    @property
    def accepts_unbounded_state(self) -> bool:
        """Return True if the state may grow forever."""
        return self.unbounded_state == "accepted"

    @property
    def most_poison(self) -> int:
        """Return the maximum number of records to leave out because the transform fails at them."""
        return self.max_poison_records or DEFAULT_MOST

    @property
    def own_trigger(self) -> Trigger:
        """Return the trigger in the declared mode: the declared one, or the mode's default."""
        return self.trigger_ or DEFAULT_TRIGGERS[self.mode]

    @property
    def trigger(self) -> timedelta:
        """Return the minimum time between the starts of two batches of a stream."""
        return self.own_trigger.interval

    def is_without_batches(self, mode: str) -> bool:
        """Return True if a run in this mode writes rows as they arrive, without foreachBatch."""
        return self.trigger_of(mode) in WITHOUT_BATCHES

    def trigger_of(self, mode: str) -> str:
        """Return the kind of trigger for a run in `mode`, which may differ from the declared mode."""
        if mode == self.mode:
            return self.own_trigger.kind
        return "interval" if mode == "stream" else "available_now"
