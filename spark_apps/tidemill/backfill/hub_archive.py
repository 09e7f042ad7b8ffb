"""A hub's archive in a backfill: older events, and the exact position where the hub continues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.positions import RangeFacts
from tidemill.backfill.refusal import refused
from tidemill.backfill.seam import PartitionFacts, PartitionSeam, seam_of
from tidemill.capture.archive import Archive
from tidemill.capture.archive_files import ArchiveFile, Run, archive_folder
from tidemill.capture.spans import Span, common, text, union
from tidemill.ledger.entry import LedgerEntry, Positions
from tidemill.ledger.read import read_commits
from tidemill.ledger.standing import standing_commits
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.offsets import KafkaOffsets
from tidemill.spec.project import Pipeline

# Maximum time by which an event time may be after the enqueued time, if the pipeline sets no limit.
MOST_AHEAD = timedelta(days=1)

# Capture may round times to whole seconds; the hub's time is at most this much later.
_ROUNDED = timedelta(seconds=1)

# Maximum backward step of a hub's clock, for example when another node takes over a partition.
_CLOCK_STEP = timedelta(minutes=5)

# A file is late if it is this much newer than its events; Capture's windows have at most 15 minutes.
_LATE = timedelta(days=1)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Files = Mapping[int, Sequence[ArchiveFile]]


@dataclass(frozen=True)
class HubArchive:
    """The archive of a pipeline's hub, for a range.

    Args:
        pipeline: The pipeline's name.
        hub: Name of the hub, which is the topic.
        since: Earliest enqueued time of events that may be in the range; None for all events.
        files: The files of each partition.
    """

    pipeline: str
    hub: str
    since: datetime | None
    files: Files

    def runs(self, partition: int) -> list[Run]:
        """Return the archived runs of a partition, by sequence number."""
        runs = [run for file in self.files.get(partition, ()) for run in file.runs]
        return sorted(runs, key=lambda run: (run.first, run.end))


def read_archive(pipeline: Pipeline, bounds: Bounds) -> HubArchive | None:
    """Return the archive for a range; None if the pipeline's source has none.

    Raises:
        DataError: TIDE-HUB-001 or -002, if a file cannot be read.
        UsageError: TIDE-HUB-003, if it contains the events of two hubs.
    """
    source = pipeline.spec.source.event_hub
    if source is None or source.capture is None:
        return None
    ahead = pipeline.spec.max_ahead or MOST_AHEAD
    since = None if bounds.start is None else max(bounds.start, _EPOCH + ahead) - ahead
    folder = archive_folder(
        source.capture, pipeline.layout.folder(source.capture.path), source.namespace, source.hub
    )
    asked = None if bounds.start_offsets is None else bounds.start_offsets.get(source.hub, {})
    index = folder.index(lambda file: _is_enough(file, since, asked))
    archive = HubArchive(pipeline.name, source.hub, since, index)
    for partition in archive.files:
        _check_one_hub(archive, partition)
    return archive


def _is_enough(file: ArchiveFile, since: datetime | None, asked: Mapping[str, int] | None) -> bool:
    """Return True if this file shows that all events of older files are before the range.

    A late file, written long after its events, shows nothing about older files.
    """
    if asked is not None and str(file.partition) not in asked:
        return True
    if not file.runs or file.moment - max(run.latest for run in file.runs) > _LATE:
        return False
    if asked is not None:
        return file.runs[-1].end <= asked[str(file.partition)]
    return since is not None and all(run.latest < since for run in file.runs)


def _check_one_hub(archive: HubArchive, partition: int) -> None:
    """Raise if sequence numbers do not rise with time, because a recreated hub begins again.

    Raises:
        UsageError: TIDE-HUB-003.
    """
    runs = archive.runs(partition)
    if not runs:
        return
    before = runs[0]
    for after in runs[1:]:
        shares = after.first < before.end
        goes_back = not shares and after.earliest + _CLOCK_STEP < before.latest
        # A number that is in both runs must have the same time.
        apart = shares and min(before.latest, after.latest) + _ROUNDED < max(before.earliest, after.earliest)
        if goes_back or apart:
            numbers = f"{after.first}-{after.end - 1}"
            facts: dict[str, object] = {"numbers": numbers, "enqueued": after.earliest.isoformat()}
            raise _other_hub(archive, partition, facts)
        before = max(before, after, key=lambda run: run.end)


def with_archive(found: RangeFacts, archive: HubArchive, bounds: Bounds) -> RangeFacts:
    """Return the combined facts of hub and archive.

    Raises:
        UsageError: TIDE-HUB-003, if the archive has events that the hub never had.
    """
    hub = archive.hub
    oldest, from_start = dict(found.topics.oldest[hub]), dict(found.from_start[hub])
    ends = found.topics.ends[hub]
    for partition in archive.files:
        runs, number = archive.runs(partition), str(partition)
        if not runs:
            continue
        last = max(run.end for run in runs)
        if last > ends.get(number, 0):
            raise _other_hub(archive, partition, {"archived_to": last, "hub_ends_at": ends.get(number)})
        first = _first(runs, archive.since)
        if first < oldest[number]:
            oldest[number] = first
            known_before = bounds.start is not None and runs[0].earliest < bounds.start
            from_start[number] = first + 1 if known_before else first
    topics = replace(found.topics, oldest={hub: oldest})
    return RangeFacts(topics, {hub: from_start})


def _first(runs: Sequence[Run], since: datetime | None) -> int:
    """Return the start of the newest run that began before `since`, where events of the range may begin."""
    before = [run.first for run in runs if since is not None and run.earliest < since]
    return max(before, default=runs[0].first)


def plan_archive(
    pipeline: Pipeline, archive: HubArchive, found: RangeFacts, wanted: tuple[Positions, Positions]
) -> tuple[Archive, list[PartitionSeam]]:
    """Return the archive slices and the seam of each partition.

    Args:
        pipeline: The pipeline of the range.
        archive: Its archive.
        found: Facts of the hub alone.
        wanted: Start and end of the range, of each partition.

    Raises:
        UsageError: TIDE-HUB-003, if archive and hub disagree; TIDE-HUB-004, if neither has all of the range.
    """
    hub = archive.hub
    start, end = wanted
    written = written_spans(pipeline)
    seams = [
        seam_of(
            PartitionFacts(
                partition=int(number),
                wanted=(first, end[hub][number]),
                files=archive.files.get(int(number), ()),
                hub=(found.topics.oldest[hub][number], found.topics.ends[hub][number]),
                written=written.get(number, ()),
            )
        )
        for number, first in start[hub].items()
    ]
    _check_gaps(archive, seams)
    _check_same_events(pipeline, archive, found)
    slices = tuple(each for seam in seams for each in seam.slices)
    return Archive(slices=slices, join={hub: {str(seam.partition): seam.join for seam in seams}}), seams


def _check_gaps(archive: HubArchive, seams: Sequence[PartitionSeam]) -> None:
    gaps = {f"partition_{seam.partition}": text(seam.gaps) for seam in seams if seam.gaps}
    if gaps:
        raise refused(
            "TIDE-HUB-004",
            archive.pipeline,
            "Neither the archive nor the hub has all events of the range.",
            {"hub": archive.hub, **gaps},
            "bring the missing files back into the archive, or choose a range without these sequence numbers",
        )


def _check_same_events(pipeline: Pipeline, archive: HubArchive, found: RangeFacts) -> None:
    """Raise if archive and hub report different times for the same event."""
    hub = archive.hub
    with KafkaOffsets(kafka_client(pipeline)) as offsets:
        for partition in archive.files:
            runs, oldest = archive.runs(partition), found.topics.oldest[hub][str(partition)]
            end = max((run.end for run in runs), default=0)
            if end <= oldest:
                continue
            latest = max(run.latest for run in runs)
            after = offsets.at_time([hub], latest + _ROUNDED)[hub][str(partition)]
            if after < end:
                facts: dict[str, object] = {"archive_says": latest.isoformat(), "hub_goes_on_at": after}
                raise _other_hub(archive, partition, {"number": end - 1, **facts})


def written_spans(pipeline: Pipeline) -> dict[str, tuple[Span, ...]]:
    """Return the offsets of each partition that were written to all tables, by their ledgers."""
    tables = [_written(pipeline, pipeline.layout.table(sink.table)) for sink in pipeline.spec.delta_sinks]
    if not tables:
        return {}
    first, *others = tables
    for other in others:
        first = {number: common(spans, other.get(number, ())) for number, spans in first.items()}
    return first


def _written(pipeline: Pipeline, path: str) -> dict[str, tuple[Span, ...]]:
    found: dict[str, list[Span]] = {}
    for commit in standing_commits(read_commits(path)):
        if commit.entry is not None and commit.entry.pipeline == pipeline.name:
            for number, span in _spans(commit.entry):
                found.setdefault(number, []).append(span)
    return {number: union(spans) for number, spans in found.items()}


def _spans(entry: LedgerEntry) -> Iterator[tuple[str, Span]]:
    for read in entry.sources.values():
        if not isinstance(read.start, dict) or not isinstance(read.end, dict):
            continue
        for topic, partitions in read.end.items():
            for number, end in partitions.items():
                yield number, (read.start.get(topic, {}).get(number, 0), end)


def _other_hub(archive: HubArchive, partition: int, facts: dict[str, object]) -> Exception:
    return refused(
        "TIDE-HUB-003",
        archive.pipeline,
        "The archive holds events of another hub of this name, such as one that was deleted and made again: "
        "the same sequence numbers mean other events.",
        {"hub": archive.hub, "partition": partition, **facts},
        "keep the files of each hub in a folder of their own, and name the one of today's hub",
    )
