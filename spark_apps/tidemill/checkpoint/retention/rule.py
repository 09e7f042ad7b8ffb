"""How long a pipeline can be rewound, and what has to be kept for it. Pure: a declaration in, numbers out.

`run.rewindable` is a time; Spark keeps a number of batches (`minBatchesToRetain`), and each batch keeps
files. The rule, from the wish to the numbers:

0. Without a wish, DEFAULT_REWINDABLE counts, or as much of it as the files allow; nobody is warned then.
1. Batches come at most every `interval`: a stream's trigger, or the shortest gap of a schedule divided by
   RUN_BATCHES.
2. `rewindable / interval`, rounded up, and MARGIN_BATCHES make `wanted` batches; never fewer than Spark's
   own MIN_BATCHES.
3. A batch keeps `offsets/N`, `commits/N` and, if there is a transform, which may be stateful, a changelog
   of each shuffle partition and a snapshot now and then.
4. More than MAX_FILES files in one checkpoint make every listing slow: the gate before each start, a backup,
   the doctor. So `batches` is the smaller of `wanted` and what MAX_FILES allows, and
   where that is less than was asked for, `findings` say so with the time that is really kept.
5. Tables keep their log and their removed files for longer than that, so that a RESTORE can follow.

A backup stays restorable whatever this says; it is the way to reach further back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from tidemill.checkpoint.findings import Finding
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.schedule_gap import shortest_gap
from tidemill.spec.units import format_duration

# Spark's default of `spark.sql.streaming.minBatchesToRetain`. Fewer would save nothing that counts.
MIN_BATCHES = 100

# How far back without a wish: a deploy that went wrong over lunch.
DEFAULT_REWINDABLE = timedelta(hours=4)

# Batches kept beyond the wish: state is saved as a whole only every tenth batch or so, and the newest batch
# may not have ended.
MARGIN_BATCHES = 10

# Files of one checkpoint, not counting the hidden `.crc` twins that a local disk has of each. Batches of 100
# rows took as long with 26,000 kept batches as with 100 (18 to 30 ms: Spark deletes beside the batch), so
# listings set the limit: 10,000 files take some 0.1 s on a local disk, with twins, and 0.6 s on an object
# store, at each gate, doctor and backup.
MAX_FILES = 10_000

# Fastest that batches follow each other under `trigger: 0 seconds`; measured: 0.2 to 0.4 s for small ones.
FASTEST_INTERVAL = timedelta(seconds=0.25)

# Batches that one incremental run is taken to make. One or two without a limit on the batch size; a run
# after a long pause, with a limit, makes more, and keeps less time then.
RUN_BATCHES = 10

# Files per batch of one state partition: a changelog with its checksum, and every tenth batch a snapshot (a
# zip with its checksum, and an SST file or two).
STATE_FILES_PER_BATCH = 2.3

# Time between two runs of an incremental pipeline that has no schedule: someone starts it by hand.
BY_HAND_INTERVAL = timedelta(hours=1)

# Delta's own defaults of `delta.logRetentionDuration` and `delta.deletedFileRetentionDuration`.
DELTA_LOG_RETENTION = timedelta(days=30)
DELTA_DELETED_FILE_RETENTION = timedelta(days=7)

# Added to `rewindable` for tables: the hours in which someone notices, decides and types.
TABLE_MARGIN = timedelta(days=1)


@dataclass(frozen=True)
class Retention:
    """What is kept.

    Args:
        asked: `run.rewindable`, or the default.
        declared: Whether someone asked for it.
        interval: Time between two batches that the numbers assume.
        wanted: Batches that `asked` needs.
        batches: Batches that Spark keeps.
        files: What the checkpoint then holds, about.
    """

    asked: timedelta
    declared: bool
    interval: timedelta
    wanted: int
    batches: int
    files: int

    @property
    def rewindable(self) -> timedelta:
        """How far back the kept batches reach, if they come as often as assumed; longer if less often."""
        kept = (self.batches - MARGIN_BATCHES) * self.interval
        unit = timedelta(minutes=1) if kept > timedelta(hours=1) else timedelta(seconds=1)
        return kept // unit * unit

    @property
    def log_retention(self) -> timedelta:
        """Shortest `delta.logRetentionDuration` of the tables."""
        return max(DELTA_LOG_RETENTION, self.asked + TABLE_MARGIN)

    @property
    def deleted_file_retention(self) -> timedelta:
        """Shortest `delta.deletedFileRetentionDuration` of the tables, and so of a VACUUM."""
        return max(DELTA_DELETED_FILE_RETENTION, self.asked + TABLE_MARGIN)

    @property
    def reaches(self) -> bool:
        """Whether what was asked for is kept."""
        return self.batches >= self.wanted


def retention_of(spec: PipelineSpec) -> Retention:
    """What is kept of a pipeline; see the rule above."""
    declared = spec.run.rewindable
    asked = DEFAULT_REWINDABLE if declared is None else declared
    interval = batch_interval(spec)
    wanted = max(MIN_BATCHES, ceil(asked / interval) + MARGIN_BATCHES)
    per_batch = files_per_batch(spec)
    batches = min(wanted, max(MIN_BATCHES, int(MAX_FILES / per_batch)))
    return Retention(asked, declared is not None, interval, wanted, batches, round(batches * per_batch))


def batch_interval(spec: PipelineSpec) -> timedelta:
    """Shortest usual time between two batches."""
    run = spec.run
    if run.mode == "stream":
        return max(run.trigger, FASTEST_INTERVAL)
    gap = shortest_gap(run.schedule) if run.schedule is not None else BY_HAND_INTERVAL
    return gap / RUN_BATCHES


def files_per_batch(spec: PipelineSpec) -> float:
    """Files that one batch adds to the checkpoint.

    Whether a transform is stateful is known only by running it. A join keeps four stores a partition
    where this counts one; `tidemill checkpoint doctor` tells what there really is.
    """
    state = spec.run.shuffle_partitions * STATE_FILES_PER_BATCH if spec.transform is not None else 0
    return 2 + state


def retention_findings(pipeline: str, kept: Retention) -> list[Finding]:
    """TIDE-CKPT-060, if less is kept than someone asked for."""
    if kept.reaches or not kept.declared:
        return []
    longest_interval = kept.asked / (kept.batches - MARGIN_BATCHES)
    return [
        Finding(
            "TIDE-CKPT-060",
            "warning",
            pipeline,
            "The checkpoint cannot be rewound as far as `rewindable` asks: it would hold too many files.",
            {
                "asked": format_duration(kept.asked),
                "kept": format_duration(kept.rewindable),
                "batches_wanted": kept.wanted,
                "batches_kept": kept.batches,
                "files": kept.files,
            },
            f"set run.rewindable to {format_duration(kept.rewindable)} or run.trigger to "
            f"{ceil(longest_interval.total_seconds())} seconds, and reach further back by backups: "
            f"tidemill checkpoint backup {pipeline}",
            "retention-policy",
        )
    ]


def table_properties(kept: Retention) -> dict[str, str]:
    """Properties of a new table; empty where Delta's own defaults keep enough.

    `delta.setTransactionRetentionDuration` is never among them: transaction versions that expire let a
    repeated batch in a second time.
    """
    properties = {}
    if kept.log_retention > DELTA_LOG_RETENTION:
        properties["delta.logRetentionDuration"] = _interval(kept.log_retention)
    if kept.deleted_file_retention > DELTA_DELETED_FILE_RETENTION:
        properties["delta.deletedFileRetentionDuration"] = _interval(kept.deleted_file_retention)
    return properties


def _interval(duration: timedelta) -> str:
    # Delta reads whole hours in every version; both of its implementations refuse months.
    return f"interval {ceil(duration / timedelta(hours=1))} hours"
