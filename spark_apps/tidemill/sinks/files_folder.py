"""Check the owner of a folder of files, and that Spark's log of it fits the checkpoint. Pure.

Spark keeps a log of such a folder, `_spark_metadata`, with one entry per batch. It silently skips a batch
whose number is already in the log. Numbers begin again with a new checkpoint, so a folder belongs to one
pipeline, and its log must agree with the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.errors import GateRefusedError
from tidemill.ledger.files_log import Claim


@dataclass(frozen=True)
class FilesFolder:
    """The content of a folder.

    Args:
        path: The folder.
        claims: The claims in it.
        newest_batch: Newest batch in Spark's log; -1 for none.
        has_files: True if there are data files, in the log or not.
    """

    path: str
    claims: Sequence[Claim]
    newest_batch: int
    has_files: bool


def entries_before(batch_id: int, interval: int) -> list[str]:
    """Return the names of the log's entries up to a batch: all since the newest compact one.

    Spark reads a log from its newest compact entry, or from 0, and fails if an entry is missing. So a log
    that does not begin with batch 0 gets empty entries.

    Args:
        batch_id: The newest batch; -1 for none.
        interval: Distance between two compact entries.
    """
    compact = (batch_id + 1) // interval * interval - 1
    first = [f"{compact}.compact"] if compact >= 0 else []
    return [*first, *(str(number) for number in range(compact + 1, batch_id + 1))]


def outdated(folder: FilesFolder, mine: Claim) -> list[Claim]:
    """Return own claims that are obsolete: while the log has no batch, columns may still change."""
    return [claim for claim in folder.claims if claim != mine] if folder.newest_batch < 0 else []


def check_folder_is_ours(folder: FilesFolder, mine: Claim) -> None:
    """Raise an error for a folder in which this driver would lose rows, or hide those of others.

    Args:
        folder: Content of the folder.
        mine: Claim of this driver.

    Raises:
        GateRefusedError: TIDE-SINK-008, if it has files of others; -009, if its files have another layout;
            -010, if Spark's log has batches that this checkpoint has yet to write; -011, if it lacks some.
    """
    own = [c for c in folder.claims if (c.root, c.pipeline) == (mine.root, mine.pipeline)]
    others = [claim for claim in folder.claims if claim not in own]
    if others or (not own and (folder.newest_batch >= 0 or folder.has_files)):
        owner = f"{others[0].pipeline} of {others[0].root}" if others else "unknown"
        raise _refused(
            "TIDE-SINK-008",
            "The folder of a files sink holds what this pipeline has not written. Spark would hide the files "
            "that its log does not name, or skip batches whose numbers are in the log.",
            folder,
            mine,
            {"owner": owner},
        )
    before = [claim.layout for claim in own if claim.layout != mine.layout]
    if before and folder.newest_batch >= 0:
        raise _refused(
            "TIDE-SINK-009",
            "The files in the folder have other columns, another format or other partitions.",
            folder,
            mine,
            {"found": before[0], "now": mine.layout},
        )
    _check_log(folder, mine, own)


def _check_log(folder: FilesFolder, mine: Claim, own: Sequence[Claim]) -> None:
    facts = {"log_batch": folder.newest_batch, "checkpoint_batch": mine.after_batch}
    # Only in its own generation can the batch after the newest one have been written before a crash.
    is_same = any(claim.generation == mine.generation for claim in own)
    if folder.newest_batch > mine.after_batch + is_same:
        raise _refused(
            "TIDE-SINK-010",
            "Spark's log of the folder has batches that this checkpoint has still to write, and Spark would "
            "skip them without a word: the checkpoint was reset, taken back or is an older one. Rows of a "
            "files sink cannot be taken back.",
            folder,
            mine,
            facts,
        )
    since = min((claim.after_batch for claim in own), default=mine.after_batch)
    if own and mine.after_batch > since and folder.newest_batch < mine.after_batch:
        raise _refused(
            "TIDE-SINK-011",
            "Spark's log of the folder lacks batches that the checkpoint has finished: a part of the folder "
            "was deleted or restored, or the sink was left out for a while.",
            folder,
            mine,
            facts,
        )


def _refused(
    error_id: str, problem: str, folder: FilesFolder, mine: Claim, facts: Mapping[str, object]
) -> GateRefusedError:
    return GateRefusedError(
        error_id,
        f"{problem} Nothing was written.",
        facts={"pipeline": mine.pipeline, "generation": mine.generation, "folder": folder.path, **facts},
        fix="name another folder as `path:` of the sink, or move this one away, with all that is in it",
    )
