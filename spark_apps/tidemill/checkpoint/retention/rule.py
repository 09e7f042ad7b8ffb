"""The rewind window of a pipeline and the retention it needs. Pure: a declaration in, numbers out.

`run.rewindable` is a time, but Spark keeps a number of batches (`minBatchesToRetain`), and each batch keeps
files. The rule, from the requested time to the numbers:

0. Without a request, DEFAULT_REWINDABLE is used, or less if the file limit demands it; then there is no
   warning.
1. The shortest time between batches is `interval`: a stream's trigger, or the shortest gap of a schedule
   divided by RUN_BATCHES.
2. `wanted` is `rewindable / interval`, rounded up, plus MARGIN_BATCHES, and at least Spark's MIN_BATCHES.
3. A batch keeps `offsets/N` and `commits/N`. If there is a transform, which may be stateful, it also keeps a
   changelog of each shuffle partition and an occasional snapshot.
4. More than MAX_FILES files in one checkpoint make every listing slow: the gate before each start, a backup,
   the doctor. So `batches` is the smaller of `wanted` and the number that MAX_FILES allows. If that is less
   than requested, `findings` report the time that is really kept.
5. Tables keep their log and their removed files for longer than that, so that a RESTORE is possible.

A backup stays restorable regardless of this rule; use backups to go further back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from tidemill.checkpoint.findings import Finding
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.schedule_gap import shortest_gap
from tidemill.spec.units import format_duration

# Spark's default of `spark.sql.streaming.minBatchesToRetain`. Keeping fewer would save almost nothing.
MIN_BATCHES = 100

# Default rewind window: long enough for a bad deployment during lunch.
DEFAULT_REWINDABLE = timedelta(hours=4)

# Batches kept in addition, because the whole state is saved only about every tenth batch, and the newest
# batch may be unfinished.
MARGIN_BATCHES = 10

# Maximum number of files in one checkpoint, without the hidden `.crc` files of a local disk. Batches of 100
# rows took as long with 26,000 kept batches as with 100 (18 to 30 ms, because Spark deletes in the
# background), so listings set the limit. 10,000 files take about 0.1 s on a local disk, including `.crc`
# files, and 0.6 s on an object store, at each gate, doctor and backup.
MAX_FILES = 10_000

# Shortest time between batches under `trigger: 0 seconds`; measured: 0.2 to 0.4 s for small ones.
FASTEST_INTERVAL = timedelta(seconds=0.25)

# Assumed number of batches in one incremental run. A run without a limit on the batch size makes one or two.
# A run with a limit after a long pause makes more, and the checkpoint then reaches less far back.
RUN_BATCHES = 10

# Files per batch of one state partition: a changelog with its checksum, and every tenth batch a snapshot (a
# zip with its checksum, and one or two SST files).
STATE_FILES_PER_BATCH = 2.3

# Assumed time between two runs of an incremental pipeline without a schedule, which users start by hand.
BY_HAND_INTERVAL = timedelta(hours=1)

# Delta's own defaults of `delta.logRetentionDuration` and `delta.deletedFileRetentionDuration`.
DELTA_LOG_RETENTION = timedelta(days=30)
DELTA_DELETED_FILE_RETENTION = timedelta(days=7)

# Added to `rewindable` for tables: the time until an operator notices a problem and acts.
TABLE_MARGIN = timedelta(days=1)


@dataclass(frozen=True)
class Retention:
    """The kept batches and files.

    Args:
        asked: `run.rewindable`, or the default.
        declared: True if the pipeline file sets it.
        interval: Assumed time between two batches.
        wanted: Number of batches that `asked` needs.
        batches: Number of batches that Spark keeps.
        files: Approximate number of files in the checkpoint.
    """

    asked: timedelta
    declared: bool
    interval: timedelta
    wanted: int
    batches: int
    files: int

    @property
    def rewindable(self) -> timedelta:
        """Return how far back the kept batches reach at the assumed interval; slower ones reach further."""
        kept = (self.batches - MARGIN_BATCHES) * self.interval
        unit = timedelta(minutes=1) if kept > timedelta(hours=1) else timedelta(seconds=1)
        return kept // unit * unit

    @property
    def log_retention(self) -> timedelta:
        """Return the minimum `delta.logRetentionDuration` of the tables."""
        return max(DELTA_LOG_RETENTION, self.asked + TABLE_MARGIN)

    @property
    def deleted_file_retention(self) -> timedelta:
        """Return the minimum `delta.deletedFileRetentionDuration` of the tables, and so of a VACUUM."""
        return max(DELTA_DELETED_FILE_RETENTION, self.asked + TABLE_MARGIN)

    @property
    def reaches(self) -> bool:
        """Return True if the requested time is kept."""
        return self.batches >= self.wanted


def retention_of(spec: PipelineSpec) -> Retention:
    """Return the retention of a pipeline; see the rule above."""
    declared = spec.run.rewindable
    asked = DEFAULT_REWINDABLE if declared is None else declared
    interval = batch_interval(spec)
    wanted = max(MIN_BATCHES, ceil(asked / interval) + MARGIN_BATCHES)
    per_batch = files_per_batch(spec)
    batches = min(wanted, max(MIN_BATCHES, int(MAX_FILES / per_batch)))
    return Retention(asked, declared is not None, interval, wanted, batches, round(batches * per_batch))


def batch_interval(spec: PipelineSpec) -> timedelta:
    """Return the shortest usual time between two batches."""
    run = spec.run
    if run.mode == "stream":
        return max(run.trigger, FASTEST_INTERVAL)
    gap = shortest_gap(run.schedule) if run.schedule is not None else BY_HAND_INTERVAL
    return gap / RUN_BATCHES


def files_per_batch(spec: PipelineSpec) -> float:
    """Return the number of files that one batch adds to the checkpoint.

    Only running a transform shows if it is stateful. A join keeps four stores per partition, while this
    function counts one. `tidemill checkpoint doctor` reports the real number.
    """
    state = spec.run.shuffle_partitions * STATE_FILES_PER_BATCH if spec.transform is not None else 0
    return 2 + state


def retention_findings(pipeline: str, kept: Retention) -> list[Finding]:
    """Return TIDE-CKPT-060 if less is kept than the pipeline file asks for."""
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
    """Return the properties of a new table; empty if Delta's own defaults keep enough.

    `delta.setTransactionRetentionDuration` is never set, because expired transaction versions would let a
    repeated batch be written twice.
    """
    properties = {}
    if kept.log_retention > DELTA_LOG_RETENTION:
        properties["delta.logRetentionDuration"] = _interval(kept.log_retention)
    if kept.deleted_file_retention > DELTA_DELETED_FILE_RETENTION:
        properties["delta.deletedFileRetentionDuration"] = _interval(kept.deleted_file_retention)
    return properties


def _interval(duration: timedelta) -> str:
    # Every version of Delta reads whole hours; both of its implementations refuse months.
    return f"interval {ceil(duration / timedelta(hours=1))} hours"
