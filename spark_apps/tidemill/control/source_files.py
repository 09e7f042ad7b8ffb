"""Check if files that were read may be archived or deleted now, from facts about the whole project."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemill.checkpoint.holds import read_holds
from tidemill.control.backfills import list_backfills
from tidemill.control.procedures.run import Asking
from tidemill.errors import SpecError
from tidemill.spec.files_after import check_files_of_all, cleaned_sources
from tidemill.spec.project import Environment, Pipeline

if TYPE_CHECKING:
    from tidemill.control.plane import ControlPlane


def why_left(plane: ControlPlane, pipeline: Pipeline) -> str:
    """Return why no file may be removed now; empty if files may be removed.

    Raises:
        SpecError: TIDE-FILE-002, if another pipeline reads or writes in the same folder.
    """
    wrong = check_neighbours(plane.environment, pipeline)
    if wrong:
        return f"the file of {wrong} is wrong, so what it reads is not known"
    holds = [hold.id for hold in read_holds(plane.store, plane.layout, pipeline.name)]
    if holds:
        return f"the pipeline is held: {', '.join(holds)}"
    deletes = any(files.after == "delete" for files in cleaned_sources(pipeline).values())
    # A stopped backfill may continue; it can still read archived files.
    busy = {"at work", "stopped", "staged"} if deletes else {"at work"}
    backfills = [found for found in list_backfills(plane, pipeline.name) if found.state in busy]
    if backfills:
        return f"a backfill is {backfills[0].state}: plan {backfills[0].plan.digest}"
    if plane.running(pipeline.name, "backfill") is not None:
        return "a backfill is at work"
    return ""


def check_neighbours(environment: Environment, pipeline: Pipeline) -> str:
    """Raise if another pipeline uses the folder; return the name of a pipeline with an unreadable file.

    Raises:
        SpecError: TIDE-FILE-002.
    """
    known = [pipeline]
    for name in environment.project.pipeline_names():
        if name == pipeline.name:
            continue
        try:
            known.append(Pipeline(name, environment.project.load_pipeline(name), environment))
        except SpecError:
            return name
    check_files_of_all(known)
    return ""


def cleaning_asked_by(by: str, reason: str, request_id: str = "") -> Asking:
    """Return a request of the daily hygiene, with the command that completes it by hand."""
    command: Callable[..., str] = lambda *words: " ".join(("tidemill", *words))  # noqa: E731  # one line
    return Asking("clean", (), by, command, reason=reason, request_id=request_id, group="source")
