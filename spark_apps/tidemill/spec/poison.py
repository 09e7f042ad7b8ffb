"""`run.on_poison: quarantine`: where a record at which the transform fails can be told from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.spec.pipeline import PipelineSpec

# Records that a pipeline may leave out where it does not say: each costs some twenty small jobs to find, and
# code that fails at more of them is wrong itself.
DEFAULT_MOST = 10

# More are not poison among good records. Each is a file that every start reads.
LARGEST_MOST = 100


def poison_problem(spec: PipelineSpec) -> str:
    """Why the records at which this transform fails cannot be set aside; empty if they can.

    Whether the transform keeps state is seen in its plan only (TIDE-PLAN-032).
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
