"""`clean`: archive or delete files that were read and are no longer needed in their folder.

It can run while the stream runs, because it takes only files that the live generation will not read again. So
it takes no hold and fences no driver. While a `clean` is unfinished, other operations cannot begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from tidemill.checkpoint.cleaning.decide import Candidate, FilesDecision, decide_files
from tidemill.checkpoint.cleaning.deleted import read_recorded, record_deleted
from tidemill.checkpoint.cleaning.points import PointsOfReturn, points_of_return
from tidemill.checkpoint.cleaning.stored import StoredFiles, stored_files
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.gate import check_agreement, gather_settled
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.procedure.journal import Notes
from tidemill.checkpoint.retention.rule import Retention, retention_of
from tidemill.errors import UnavailableError
from tidemill.spec.files_after import cleaned_sources
from tidemill.spec.files_source import FilesSource
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration
from tidemill.storage.files_store import has_one_name
from tidemill.storage.store import Store

# Files moved or deleted concurrently, to hide an object store's latency.
FILES_AT_ONCE = 8

# Spark's files sink stores here which files of a folder count.
_SINK_LOG = "_spark_metadata/"

ARCHIVE, DELETE = "archive", "delete"

# Files of each stream, and the names of those that may be removed now.
Allowed = dict[str, tuple[StoredFiles, list[str]]]

# Checks again which files may be archived, or deleted.
Look = Callable[[str], Allowed]


@dataclass(frozen=True)
class CleanFacts:
    """The facts and the decision for one stream.

    Args:
        stored: Its files.
        points: The files that were read, and when.
        decision: The decision for each file.
    """

    stored: StoredFiles
    points: PointsOfReturn
    decision: FilesDecision


def window_of(kept: Retention) -> timedelta:
    """Return the rewind window: the requested time, or longer.

    The retention can be longer than `tidemill plan` promises, because batches can be less frequent than
    assumed.
    """
    return max(kept.asked, kept.rewindable)


def age_of(pipeline: Pipeline, files: FilesSource) -> timedelta:
    """Return the age at which files may be removed."""
    return max(files.keep_for or timedelta(0), window_of(retention_of(pipeline.spec)))


def plan_clean(
    store: Store, pipeline: Pipeline, left: str = "", now: datetime | None = None
) -> dict[str, Any]:
    """Return the files to remove, by stream. Write nothing.

    Args:
        store: The storage.
        pipeline: Pipeline whose files are cleaned.
        left: Reason why nothing may be removed now; empty if there is none.
        now: Reference time for ages.

    Raises:
        GateRefusedError: If checkpoint and tables do not belong together, or a checkpoint is damaged.
        UnavailableError: TIDE-FILE-005, if a folder does not exist.
    """
    moment = now or datetime.now(UTC)
    live = read_current(store, pipeline.layout, pipeline.name)
    plan: dict[str, Any] = {
        "generation": None if live is None else live.generation,
        "moment": moment.isoformat(),
        "left": left,
        "streams": {},
    }
    if live is None or left:
        return {**plan, "left": left or "it has never run"}
    check_agreement(gather_settled(store, pipeline, live.generation))
    for stream, files in cleaned_sources(pipeline).items():
        facts = look_at(store, pipeline, stream, moment)
        if any(_SINK_LOG in name for name in facts.stored.there):
            return {
                **plan,
                "streams": {},
                "left": f"{files.path} is written by Spark's files sink, whose log names its files",
            }
        plan["streams"][stream] = _stream_plan(pipeline, files, facts)
    return plan


def clean_steps(
    store: Store, pipeline: Pipeline, request: Request, plan: Mapping[str, Any], why_left: Callable[[], str]
) -> tuple[Step, ...]:
    """Return the steps: record the deletions, then archive and delete the planned files that may still go.

    An interrupted request may be completed much later, so `why_left` checks again if nothing may be removed.
    """

    def look(after: str) -> Allowed:
        return {} if why_left() else _allowed(store, pipeline, plan, after)

    def recorded(stream: str) -> Mapping[str, int] | None:
        return read_recorded(store, pipeline.layout, (pipeline.name, stream, request.request_id))

    def unrecorded(_: Notes) -> str:
        streams = (stream for stream in look(DELETE) if recorded(stream) is None)
        return ", ".join(f"the record of what is deleted of {stream}" for stream in streams)

    def left(_: Notes) -> str:
        archived = (name for _, names in look(ARCHIVE).values() for name in names)
        deletes = look(DELETE).items()
        deleted = (n for stream, (_, names) in deletes for n in names if n in (recorded(stream) or {}))
        return ", ".join(f"the removal of {name}" for name in (*archived, *deleted))

    return (
        Step("record deletions", partial(_record, store, pipeline, request, look), unrecorded),
        Step("archive and delete", partial(_take_away, store, pipeline, request, look), left),
    )


def look_at(store: Store, pipeline: Pipeline, stream: str, moment: datetime) -> CleanFacts:
    """Decide about the files of one stream at a given time."""
    files = cleaned_sources(pipeline)[stream]
    stored = stored_files(pipeline.layout, files.path)
    if stored is None:
        raise UnavailableError(
            "TIDE-FILE-005",
            "The folder of a files source is not there, on this machine.",
            facts={"pipeline": pipeline.name, "stream": stream, "path": files.path},
            fix="run it where the folder is, or mount it here",
        )
    window_began = moment - window_of(retention_of(pipeline.spec))
    points = points_of_return(store, pipeline, stream, window_began)
    candidates = list(_candidates(stored, points))
    others = len(stored.there.keys() - {candidate.name for candidate in candidates})
    decision = decide_files(candidates, moment - age_of(pipeline, files), others)
    return CleanFacts(stored, points, decision)


def _candidates(stored: StoredFiles, points: PointsOfReturn) -> Iterable[Candidate]:
    is_local = "://" not in stored.store.root
    for uri, read in points.live.items():
        name = stored.place.name_of_uri(uri)
        # None means that the file is in another folder, which an earlier declaration named.
        if name is not None:
            alike = is_local or has_one_name(name)
            archived = stored.archived.get(name)
            size = None if archived is None else archived.size
            yield Candidate(name, read, stored.there.get(name), points.needed_by(uri), alike, size)


def _stream_plan(pipeline: Pipeline, files: FilesSource, facts: CleanFacts) -> dict[str, Any]:
    goes, decision = facts.decision.goes, facts.decision
    for_good = len(goes) + decision.more + sum(decision.stays.values())
    return {
        "after": files.after,
        "older_than": format_duration(age_of(pipeline, files)),
        "files": len(goes),
        "bytes": decision.size,
        "first": facts.stored.source_path(goes[0].name) if goes else None,
        "last": facts.stored.source_path(goes[-1].name) if goes else None,
        "until": goes[-1].read.log_id if goes else None,
        "to": facts.stored.place.archive if files.after == ARCHIVE else None,
        "more": decision.more,
        "stays": dict(decision.stays),
        "not_read_for_good": len(facts.stored.there) - for_good,
    }


def _allowed(store: Store, pipeline: Pipeline, plan: Mapping[str, Any], after: str) -> Allowed:
    """Return the planned files that may still be removed; the generation or a file may have changed since."""
    live = read_current(store, pipeline.layout, pipeline.name)
    if live is None or live.generation != plan["generation"]:
        return {}
    declared, moment = cleaned_sources(pipeline), datetime.fromisoformat(plan["moment"])
    found = {}
    for stream, planned in plan["streams"].items():
        files = declared.get(stream)
        if planned["files"] and planned["after"] == after and files is not None and files.after == after:
            facts = look_at(store, pipeline, stream, moment)
            names = [file.name for file in facts.decision.goes if file.read.log_id <= planned["until"]]
            found[stream] = (facts.stored, names)
    return found


def _record(store: Store, pipeline: Pipeline, request: Request, look: Look, _: Notes) -> None:
    for stream, (stored, names) in look(DELETE).items():
        place = (pipeline.name, stream, request.request_id)
        record_deleted(store, pipeline.layout, place, _sizes(stored, names))


def _take_away(store: Store, pipeline: Pipeline, request: Request, look: Look, _: Notes) -> None:
    for stored, names in look(ARCHIVE).values():
        _at_once(partial(_archive, stored), names)
    for stream, (stored, names) in look(DELETE).items():
        place = (pipeline.name, stream, request.request_id)
        recorded = record_deleted(store, pipeline.layout, place, _sizes(stored, names))
        _at_once(partial(_delete, stored), [name for name in names if name in recorded])


def _sizes(stored: StoredFiles, names: Iterable[str]) -> dict[str, int]:
    return {name: stored.there[name].size for name in names}


def _archive(stored: StoredFiles, name: str) -> None:
    stored.store.move_within(stored.source_path(name), stored.archive_path(name))


def _delete(stored: StoredFiles, name: str) -> None:
    stored.store.delete(stored.source_path(name))


def _at_once(act: Callable[[str], None], names: Iterable[str]) -> None:
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        # Reading the results raises the errors of the threads.
        list(threads.map(act, names))
