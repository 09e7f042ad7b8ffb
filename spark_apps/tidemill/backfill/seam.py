"""The seam of each partition: the exact sequence number where its archive ends and the hub continues. Pure.

The archive is read up to its first gap, and the hub from there, because only the hub may lose its oldest
events while a backfill runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.capture.archive import Slice
from tidemill.capture.archive_files import ArchiveFile
from tidemill.capture.spans import Span, clipped, common, length, minus, repeated, text, union


@dataclass(frozen=True)
class PartitionFacts:
    """Facts about one partition.

    Args:
        partition: Its number.
        wanted: The requested range.
        files: Its files.
        hub: Range that the hub still has.
        written: Ranges that were written according to the ledger.
    """

    partition: int
    wanted: Span
    files: Sequence[ArchiveFile]
    hub: Span
    written: Sequence[Span] = ()


@dataclass(frozen=True)
class PartitionSeam:
    """Sources of the events of one partition.

    Args:
        partition: Its number.
        wanted: The requested range.
        join: First number that is read from the hub.
        slices: Slices of the archive, which contain each number below `join` once. With gaps, up to the
            first.
        gaps: Numbers that are in neither.
        repeated: Numbers that are in the archive more than once.
        in_both: Numbers that are in the archive and in the hub.
        unwritten: Numbers that no commit has recorded as written.
    """

    partition: int
    wanted: Span
    join: int
    slices: tuple[Slice, ...]
    gaps: tuple[Span, ...]
    repeated: tuple[Span, ...]
    in_both: tuple[Span, ...]
    unwritten: tuple[Span, ...]

    def line(self) -> str:
        """Return the seam in readable form."""
        files = len({each.path for each in self.slices})
        parts = [
            f"archive {self.wanted[0]} to {self.join} ({files} files)" if self.slices else "",
            f"hub {self.join} to {self.wanted[1]}" if self.join < self.wanted[1] else "",
            f"GAP {text(self.gaps)}" if self.gaps else "",
            f"twice in the archive, read once: {length(self.repeated)}" if self.repeated else "",
            f"in both: {length(self.in_both)}" if self.in_both else "",
            f"never written: {length(self.unwritten)}" if self.unwritten else "",
        ]
        return f"partition {self.partition}: {'; '.join(filter(None, parts)) or 'nothing'}"


def seam_of(facts: PartitionFacts) -> PartitionSeam:
    """Decide which events of a partition are read from archive and hub."""
    held = [(file, (run.first, run.end)) for file in facts.files for run in file.runs]
    archived = [span for _, span in held]
    twice = [span for file in facts.files for span in file.twice]
    wanted = (facts.wanted,)
    join = _reach(facts.wanted, archived)
    return PartitionSeam(
        partition=facts.partition,
        wanted=facts.wanted,
        join=join,
        slices=_slices(facts.partition, held, (facts.wanted[0], join)),
        gaps=minus(wanted, [*archived, facts.hub]),
        repeated=clipped(union([*repeated(archived), *twice]), facts.wanted),
        in_both=common(clipped(archived, facts.wanted), [facts.hub]),
        unwritten=minus(wanted, facts.written),
    )


def _reach(wanted: Span, archived: Sequence[Span]) -> int:
    """Return the first number from the start of the range on that the archive lacks."""
    first, end = wanted
    holds = [stop for start, stop in union(archived) if start <= first < stop]
    return min(holds[0], end) if holds else first


def _slices(partition: int, held: Sequence[tuple[ArchiveFile, Span]], within: Span) -> tuple[Slice, ...]:
    """Return slices with each number from one file; of several files, the one that reaches furthest."""
    slices: list[Slice] = []
    waiting = deque(sorted(held, key=lambda each: (each[1], each[0].path)))
    number = within[0]
    best: tuple[int, str] = (number, "")
    while number < within[1]:
        while waiting and waiting[0][1][0] <= number:
            file, (_, stop) = waiting.popleft()
            best = max(best, (stop, file.path))
        end = min(best[0], within[1])
        slices.append(Slice(path=best[1], partition=partition, first=number, end=end))
        number = end
    return tuple(slices)
