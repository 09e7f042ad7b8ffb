"""Paths of a hub's archive."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from tidemill.spec.capture import CaptureArchive, CapturePath, PathFormat

AT = CapturePath(3, datetime(2026, 11, 5, 9, 7, 1, tzinfo=UTC))
TIMES = "{Year}-{Month}-{Day}T{Hour}.{Minute}.{Second}"


def paths(text: str | None = None) -> PathFormat:
    keys = {} if text is None else {"format": text}
    return PathFormat(CaptureArchive(path="captured", **keys), "plant-north", "readings")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (None, "plant-north/readings/3/2026/11/05/09/07/01.avro"),
        ("{EventHub}_{PartitionId}/" + TIMES, "readings_3/2026-11-05T09.07.01.avro"),
        (TIMES + "/x{Year}/{PartitionId}.avro", "2026-11-05T09.07.01/x2026/3.avro"),
        ("a+b/{PartitionId}/" + TIMES, "a+b/3/2026-11-05T09.07.01.avro"),
    ],
)
def test_a_path_names_partition_and_window(text: str | None, path: str) -> None:
    assert paths(text).parse(path) == AT


@pytest.mark.parametrize(
    "path",
    [
        "plant-north/others/3/2026/11/05/09/07/01.avro",
        "plant-north/readings/3/2026/13/05/09/07/01.avro",
        "plant-north/readings/3/2026/11/05/09/07/01.avro.tmp",
        "x/plant-north/readings/3/2026/11/05/09/07/01.avro",
        "plant-north/readings/three/2026/11/05/09/07/01.avro",
    ],
)
def test_other_files_in_the_folder_are_none_of_the_hubs(path: str) -> None:
    assert paths().parse(path) is None


def test_only_the_hubs_own_folder_is_listed() -> None:
    assert paths().folder == "plant-north/readings"
    assert paths("{EventHub}-{PartitionId}/" + TIMES).folder == ""
    assert paths("{PartitionId}/" + TIMES).folder == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{PartitionId}/{Year}", "lacks {Month}"),
        ("{Partition}/" + TIMES, "did you mean {PartitionId}?"),
        ("../{PartitionId}/" + TIMES, "relative path"),
        ("/{PartitionId}/" + TIMES, "relative path"),
        ("{PartitionId}/{/" + TIMES, "brace"),
        ("{PartitionId}\n/" + TIMES, "relative path"),
    ],
)
def test_a_form_that_cannot_tell_them_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said.replace("{", r"\{").replace("?", r"\?")):
        CaptureArchive(path="captured", format=text)
