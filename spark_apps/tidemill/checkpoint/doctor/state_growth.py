"""Detect a pipeline's state that only grows, from the snapshots that its checkpoint still keeps.

State that a watermark clears reaches a level and stays there. Unbounded state grows until the driver fails
weeks later, and a larger driver only delays the failure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.state_damage import snapshot_data
from tidemill.checkpoint.reading.state_files import StoreFiles, VersionFile
from tidemill.checkpoint.reading.state_folder import StateFolder
from tidemill.checkpoint.reading.state_inventory import read_inventory
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.units import format_duration
from tidemill.storage.store import Store

# Minimum number of batches between the oldest and the newest snapshot for a trend.
TREND_BATCHES = 50

# Minimum growth factor over the kept batches, because the size of a store varies by half when it is
# compacted.
GROWTH = 2.0

# Minimum size in bytes. Below it, growth does not matter, and most of the size is RocksDB's own files.
WORTH_A_WORD = 64 * 2**20

# Operators whose state only the transform's own code removes.
_OWN_STATE = "transformWithState"


@dataclass(frozen=True)
class StateTrend:
    """Total size of all stores of a checkpoint at three of the kept versions, oldest first.

    Args:
        first_batch: Version of the oldest snapshot.
        last_batch: Version of the newest snapshot.
        sizes: Sizes in bytes at the oldest, a middle and the newest snapshot.
    """

    first_batch: int
    last_batch: int
    sizes: tuple[int, int, int]

    @property
    def only_grows(self) -> bool:
        """Return True if the state grew steadily and much, over enough batches."""
        first, middle, last = self.sizes
        enough = self.last_batch - self.first_batch >= TREND_BATCHES and last >= WORTH_A_WORD
        return enough and first < middle < last and last >= GROWTH * max(first, 1)


@dataclass(frozen=True)
class Cure:
    """A change that would bound a growing state.

    Args:
        problem: The problem, judged from the declaration.
        watermark: The declared watermarks, or that one is missing.
        fix: The change to make.
    """

    problem: str
    watermark: str
    fix: str


def growth_findings(store: Store, folder: StateFolder, spec: PipelineSpec) -> list[Finding]:
    """Return TIDE-CKPT-055 if the state of the live checkpoint only grows."""
    live, trend = folder.live, read_trend(store, folder)
    if live is None or trend is None or not trend.only_grows:
        return []
    first, middle, last = trend.sizes
    batches = trend.last_batch - trend.first_batch
    operators = tuple(operator.name for operator in CheckpointReader(store, live.path).operators)
    moves = folder.status is not None and folder.status.watermark is not None
    cure = cure_of(spec, operators, folder.name, moves=moves)
    return [
        Finding(
            "TIDE-CKPT-055",
            "note" if spec.run.accepts_unbounded_state else "warning",
            folder.name,
            cure.problem,
            {
                "batches": batches,
                "bytes": f"{first} -> {middle} -> {last}",
                "a_batch": (last - first) // batches,
                "operators": ", ".join(operators) or "not known",
                "watermark": cure.watermark,
            },
            cure.fix,
            "checkpoint-doctor",
        )
    ]


def cure_of(spec: PipelineSpec, operators: Collection[str], name: str, *, moves: bool) -> Cure:
    """Return the change that would bound the state.

    Args:
        spec: Declaration of the pipeline.
        operators: Spark's names of its stateful operators.
        name: Name of the pipeline.
        moves: True if Spark has reported a watermark, because the transform may have set one.
    """
    times = {key: stream.event_time for key, stream in spec.streams.items()}
    declared = {
        key: format_duration(event_time.watermark)
        for key, event_time in times.items()
        if event_time is not None
    }
    missing = [] if moves and not declared else [key for key in times if key not in declared]
    named = spec.has_named_streams
    told = [f"{key}: {watermark}" if named else watermark for key, watermark in declared.items()]
    words = ", ".join([*told, *(f"{key}: none" if named else "none" for key in missing)]) or "the transform's"
    if spec.run.accepts_unbounded_state:
        return Cure(
            "The state has grown all the time, as `unbounded_state: accepted` allows.",
            words,
            "choose a larger `run.size` in time: TIDE-TUNE-008 warns at half of the memory; "
            "or bound the join or the deduplication in event time, and reset the checkpoint",
        )
    if operators and all(operator.startswith(_OWN_STATE) for operator in operators):
        return Cure(
            "The state has grown all the time: what its transform keeps is not removed as fast as it comes.",
            words,
            "give the states of `transformWithState` a time-to-live (`ttl_duration_ms`), or clear them by a "
            "timer",
        )
    if missing:
        of = f" of the source{'s' if len(missing) > 1 else ''} {', '.join(missing)}" if named else ""
        return Cure(
            f"The state has grown all the time: there is no watermark{of}, so it keeps every key for ever.",
            words,
            f"declare `event_time: {{column: …, watermark: …}}`{of}, and have the transform group, join or "
            "deduplicate by that time, too",
        )
    shorter = f"shorten `event_time.watermark` ({words})" if declared else "shorten its `withWatermark`"
    return Cure(
        "The state has grown all the time; nothing seems to clear it.",
        words,
        f"{shorter}; see that the transform's keys are bounded and that its watermark moves: tidemill "
        f"checkpoint inspect {name}",
    )


def read_trend(store: Store, folder: StateFolder) -> StateTrend | None:
    """Return the sizes of the live checkpoint over time; None without state or with too few snapshots."""
    live = folder.live
    if live is None:
        return None
    inventory = read_inventory(live.path, live.state_files)
    stores = [files for files in inventory.stores.values() if files.snapshots]
    # Too small to matter in any case. This avoids reading the snapshots of most pipelines.
    if not stores or sum(files.size for files in stores) < WORTH_A_WORD:
        return None
    first, middle, last = (sum(sizes) for sizes in zip(*(_sizes(store, f) for f in stores), strict=True))
    versions = [version for files in stores for version in files.snapshots]
    return StateTrend(min(versions), max(versions), (first, middle, last))


def _sizes(store: Store, files: StoreFiles) -> tuple[int, int, int]:
    versions = sorted(files.snapshots)
    chosen = (versions[0], versions[len(versions) // 2], versions[-1])
    first, middle, last = (_size(store, files.snapshots, version) for version in chosen)
    return first, middle, last


def _size(store: Store, snapshots: Mapping[int, tuple[VersionFile, ...]], version: int) -> int:
    """Return the size of one snapshot with its data files."""
    file = snapshots[version][-1].file
    content = store.read(file.path) if file.path.endswith(".zip") else None
    try:
        return file.size + (sum(snapshot_data(content).values()) if content is not None else 0)
    except ValueError:
        # The gate reports damaged snapshots.
        return file.size
