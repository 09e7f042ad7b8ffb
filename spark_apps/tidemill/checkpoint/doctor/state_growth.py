"""Whether a pipeline's state only ever grows, told from the snapshots that its checkpoint still keeps.

State that a watermark clears reaches a level and stays there. State without an end grows until the driver
dies of it, weeks later, and a bigger driver only moves the day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.reading.state_damage import snapshot_data
from tidemill.checkpoint.reading.state_files import StoreFiles, VersionFile
from tidemill.checkpoint.reading.state_folder import StateFolder
from tidemill.checkpoint.reading.state_inventory import read_inventory
from tidemill.storage.store import Store

# Batches between the oldest and the newest snapshot that say anything about a trend.
TREND_BATCHES = 50

# Growth over the kept batches that is one: a store that is compacted swings by half.
GROWTH = 2.0

# Bytes below which growth is no matter, and RocksDB's own files are most of it.
WORTH_A_WORD = 64 * 2**20


@dataclass(frozen=True)
class StateTrend:
    """Bytes of all stores of a checkpoint at three of the kept versions, oldest first.

    Args:
        first_batch: Version of the oldest snapshot.
        last_batch: Of the newest.
        sizes: At the oldest, one in the middle, and the newest.
    """

    first_batch: int
    last_batch: int
    sizes: tuple[int, int, int]

    @property
    def only_grows(self) -> bool:
        """Whether it grew all the way, much, over enough batches."""
        first, middle, last = self.sizes
        enough = self.last_batch - self.first_batch >= TREND_BATCHES and last >= WORTH_A_WORD
        return enough and first < middle < last and last >= GROWTH * max(first, 1)


def growth_findings(store: Store, folder: StateFolder) -> list[Finding]:
    """TIDE-CKPT-055, if the state of the live checkpoint only grows."""
    trend = read_trend(store, folder)
    if trend is None or not trend.only_grows:
        return []
    first, middle, last = trend.sizes
    batches = trend.last_batch - trend.first_batch
    return [
        Finding(
            "TIDE-CKPT-055",
            "warning",
            folder.name,
            "The state has grown all the time; nothing seems to clear it.",
            {
                "batches": batches,
                "bytes": f"{first} -> {middle} -> {last}",
                "a_batch": (last - first) // batches,
            },
            "see that the transform's keys are bounded and that its watermark moves: tidemill checkpoint "
            f"inspect {folder.name}",
            "checkpoint-doctor",
        )
    ]


def read_trend(store: Store, folder: StateFolder) -> StateTrend | None:
    """Sizes over time of the live checkpoint; None without state, or with too few snapshots to tell."""
    live = folder.live
    if live is None:
        return None
    inventory = read_inventory(live.path, live.state_files)
    stores = [files for files in inventory.stores.values() if files.snapshots]
    # Too small to matter whatever it did; saves reading the snapshots of most pipelines.
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
    """Bytes of one snapshot with the data files that it refers to."""
    file = snapshots[version][-1].file
    content = store.read(file.path) if file.path.endswith(".zip") else None
    try:
        return file.size + (sum(snapshot_data(content).values()) if content is not None else 0)
    except ValueError:
        # Damaged: the gate's to say.
        return file.size
