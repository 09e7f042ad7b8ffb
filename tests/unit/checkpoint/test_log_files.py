"""The small files of a checkpoint: what Spark writes is read, and nothing else is."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tidemill.checkpoint.reading.log_files import (
    CommitsFile,
    OffsetsFile,
    TornFileError,
    parse_commits,
    parse_metadata,
    parse_offsets,
)

CONF = {"spark.sql.shuffle.partitions": "2"}
HEAD = {"batchWatermarkMs": 1_700_000_000_123, "batchTimestampMs": 1_700_000_600_000, "conf": CONF}
WATERMARK = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
PLANNED_AT = datetime(2023, 11, 14, 22, 23, 20, tzinfo=UTC)
KAFKA = {"orders": {"0": 5, "1": 17}}
IDS = {
    "0": [["5bcef8ea-edba-4b96-873d-4b6f7ee37d0a"], ["788f54a5-b664-4021-bcd3-51a0f4226117"]],
    "1": [["da874f26-8c0c-4a69-ad56-f571fddd5038"], ["bc734705-24d8-423f-a65a-2193bd390e07"]],
}
NAMED_HEAD = {**HEAD, "sourceMetadataInfo": {}}


def lines(version: str, *documents: object) -> bytes:
    texts = (text if isinstance(text, str) else json.dumps(text) for text in documents)
    return "\n".join([version, *texts]).encode()


def test_offsets_say_where_each_source_ends_and_what_was_pinned() -> None:
    found = parse_offsets(4, lines("v1", HEAD, KAFKA, "-", "17"))
    assert found == OffsetsFile(4, 1, {"0": KAFKA, "1": None, "2": 17}, WATERMARK, PLANNED_AT, CONF)


def test_named_offsets_are_known_by_their_names() -> None:
    found = parse_offsets(7, lines("v2", NAMED_HEAD, "orders:" + json.dumps(KAFKA), "clicks:-"))
    assert found == OffsetsFile(7, 2, {"orders": KAFKA, "clicks": None}, WATERMARK, PLANNED_AT, CONF)


def test_before_the_first_event_there_is_no_watermark() -> None:
    assert parse_offsets(0, lines("v1", {**HEAD, "batchWatermarkMs": 0}, KAFKA)).watermark is None
    assert parse_commits(0, lines("v1", {"nextBatchWatermarkMs": 0})).next_watermark is None


def test_a_watermark_beyond_the_calendar_is_no_damage() -> None:
    found = parse_offsets(0, lines("v1", {**HEAD, "batchWatermarkMs": 2**62}, KAFKA))
    assert found.watermark == datetime(9999, 12, 31, tzinfo=UTC)


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_commits_of_every_version_say_the_next_watermark(version: str) -> None:
    found = parse_commits(3, lines(version, {"nextBatchWatermarkMs": 1_700_000_000_123}))
    assert found == CommitsFile(3, int(version[1]), WATERMARK, {})


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_commits_name_the_state_files_of_every_partition(version: str) -> None:
    head = {"nextBatchWatermarkMs": 0, "stateUniqueIds": IDS, "sinkMetadataMap": {}}
    assert parse_commits(3, lines(version, head)).state_ids == {
        0: (("5bcef8ea-edba-4b96-873d-4b6f7ee37d0a",), ("788f54a5-b664-4021-bcd3-51a0f4226117",)),
        1: (("da874f26-8c0c-4a69-ad56-f571fddd5038",), ("bc734705-24d8-423f-a65a-2193bd390e07",)),
    }


def test_a_note_of_continuous_processing_tells_what_was_read_and_nothing_of_a_batch() -> None:
    found = parse_offsets(4, lines("v1", "", KAFKA))
    assert found == OffsetsFile(4, 1, {"0": KAFKA}, is_note=True)
    assert not parse_offsets(4, lines("v1", HEAD, KAFKA)).is_note


WHOLE_OFFSETS = [
    lines("v1", HEAD, KAFKA),
    lines("v1", "", KAFKA),
    lines("v1", HEAD, {"logOffset": 3}),
    lines("v2", NAMED_HEAD, "orders:" + json.dumps(KAFKA)),
]
WHOLE_COMMITS = [
    lines("v1", {"nextBatchWatermarkMs": 12}),
    lines("v2", {"nextBatchWatermarkMs": 12, "stateUniqueIds": IDS}),
    lines("v3", {"nextBatchWatermarkMs": 12, "stateUniqueIds": IDS, "sinkMetadataMap": {}}),
]


@pytest.mark.parametrize("content", WHOLE_OFFSETS, ids=["kafka", "note", "files", "named"])
def test_offsets_cut_anywhere_are_refused(content: bytes) -> None:
    parse_offsets(1, content)
    for length in range(len(content)):
        with pytest.raises(TornFileError):
            parse_offsets(1, content[:length])


@pytest.mark.parametrize("content", WHOLE_COMMITS, ids=["v1", "v2", "v3"])
def test_commits_cut_anywhere_are_refused(content: bytes) -> None:
    parse_commits(1, content)
    for length in range(len(content)):
        with pytest.raises(TornFileError):
            parse_commits(1, content[:length])


def test_offsets_cut_between_two_sources_are_refused_by_who_knows_how_many_there_are() -> None:
    for cut in (lines("v1", HEAD, KAFKA), lines("v2", NAMED_HEAD, "orders:" + json.dumps(KAFKA))):
        assert list(parse_offsets(1, cut, sources=1).ends.values()) == [KAFKA]
        with pytest.raises(TornFileError):
            parse_offsets(1, cut, sources=2)


@pytest.mark.parametrize(
    "content",
    [
        b"\0\0\0\0\0\0\0\0",
        lines("v9", HEAD, KAFKA),
        lines("v3", HEAD, KAFKA),
        lines("1", HEAD, KAFKA),
        lines("v1", "", ""),
        lines("v2", "", "orders:" + json.dumps(KAFKA)),
        lines("v1", [], KAFKA),
        lines("v1", {"batchTimestampMs": 0}, KAFKA),
        lines("v1", {**HEAD, "batchWatermarkMs": "soon"}, KAFKA),
        lines("v1", {**HEAD, "conf": []}, KAFKA),
        lines("v1", HEAD, KAFKA, ""),
        lines("v2", HEAD, json.dumps(KAFKA)),
        lines("v2", HEAD, "orders"),
        lines("v1", HEAD, KAFKA) + b"\xff",
    ],
)
def test_what_spark_never_writes_is_no_offsets_file(content: bytes) -> None:
    with pytest.raises(TornFileError):
        parse_offsets(1, content)


@pytest.mark.parametrize(
    "content",
    [
        lines("v4", {"nextBatchWatermarkMs": 0}),
        lines("v1", {}),
        lines("v1", {"nextBatchWatermarkMs": 0}, {}),
        lines("v2", {"nextBatchWatermarkMs": 0, "stateUniqueIds": {"zero": []}}),
        lines("v2", {"nextBatchWatermarkMs": 0, "stateUniqueIds": {"0": 7}}),
        lines("v2", {"nextBatchWatermarkMs": 0, "stateUniqueIds": [1]}),
    ],
)
def test_what_spark_never_writes_is_no_commits_file(content: bytes) -> None:
    with pytest.raises(TornFileError):
        parse_commits(1, content)


def test_metadata_holds_the_query_id() -> None:
    content = b'{"id":"bc099023-cf3f-46f0-8dcd-a2e00e1eee9e"}'
    assert parse_metadata(content) == "bc099023-cf3f-46f0-8dcd-a2e00e1eee9e"
    for length in range(len(content)):
        with pytest.raises(TornFileError):
            parse_metadata(content[:length])
