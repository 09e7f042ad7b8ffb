"""The source table's version that a backfill reads while a stream runs."""

from __future__ import annotations

import pytest

from tidemill.backfill.table_read import readable_version, whole_version
from tidemill.checkpoint.reading.source_logs import DeltaOffset
from tidemill.ledger.commit_files import ChangedFiles

APPEND, CHANGE, DELETE, NOTHING = (ChangedFiles(*files) for files in ((2, 0), (1, 1), (0, 1), (0, 0)))


@pytest.mark.parametrize(
    ("index", "files", "expected"),
    [(-1, 0, 6), (-20, 3, 6), (0, 1, 7), (1, 3, None), (2, 3, 7)],
    ids=["none of it", "none of several", "its only file", "two of three", "all of three"],
)
def test_the_newest_version_of_which_every_file_was_read(
    index: int, files: int, expected: int | None
) -> None:
    offset = DeltaOffset("id", 7, index, is_snapshot=False)
    assert whole_version(offset, files) == expected


def test_a_first_snapshot_of_which_nothing_was_read_is_no_version() -> None:
    assert whole_version(DeltaOffset("id", 7, -1, is_snapshot=True), 0) is None


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        ([], 5),
        ([APPEND], 5),
        ([NOTHING, APPEND, NOTHING, APPEND], 6),
        ([CHANGE, DELETE], 7),
        ([CHANGE, APPEND], 6),
        ([APPEND, CHANGE], None),
        ([NOTHING, APPEND, DELETE], None),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else None,
)
def test_the_version_without_rows_that_the_stream_will_read(
    behind: list[ChangedFiles], expected: int | None
) -> None:
    assert readable_version(5, behind) == expected
