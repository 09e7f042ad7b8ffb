"""Conditions under which `run.on_poison: quarantine` can find the record at which a transform fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.spec.pipeline import PipelineSpec

# Default maximum of records that a pipeline may leave out. Finding one takes about twenty small jobs, and
# code that fails at more records is itself wrong.
DEFAULT_MOST = 10

# Upper bound of that maximum. More failing records are not an exception, and every start reads a file for
# each.
LARGEST_MOST = 100


def poison_problem(spec: PipelineSpec) -> str:
    """Return why the records at which this transform fails cannot be set aside; empty if they can.

    State of the transform is visible only in its plan and is checked there (TIDE-PLAN-032).
    """
    if spec.has_named_streams:
        return (
            "several streams are joined or put together, and no run of a part of one tells at which record "
            "the whole fails. Give what can fail a pipeline of its own"
        )
    if not spec.source.is_kafka:
        return (
            f"records of a {spec.source.kind} source have no offsets by which a batch could be taken apart. "
            "Leave it out; lines that do not fit the schema are set aside by `on_invalid`"
        )
    if spec.payload is None:
        return (
            "without a payload the pipeline has no quarantine. Declare one; `text: {}` gives each record as "
            "it is"
        )
    if spec.transform is None:
        return "without a `transform` nothing can fail at a record that was decoded. Leave it out"
    if spec.keeps_late:
        return (
            "with `late: table` a batch leaves out late records, which a run of a part of it cannot tell. "
            "Leave one of the two out"
        )
    return ""
