"""A driver's log inside another log: each line once, each on one line, and no secrets."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemill.control.driver_log import LINES_AT_ONCE, LONGEST_LINE, LogPosition, shown_lines
from tidemill.control.local.log_file import BYTES_AT_ONCE, read_log_file
from tidemill.control.runtime import StartedDriver
from tidemill.spec.secret_mask import MASK

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def driver(tmp_path: Path) -> StartedDriver:
    file = tmp_path / "driver.log"
    file.touch()
    return StartedDriver(
        pipeline="orders",
        mode="incremental",
        run_id="run-1",
        digest="d1",
        claimed_at=AT,
        started_at=AT,
        log=str(file),
        process="pid 1",
        alive=True,
    )


def write(driver: StartedDriver, text: str | bytes) -> None:
    with Path(driver.log).open("ab") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def test_each_line_is_read_once_however_often_somebody_looks(driver: StartedDriver) -> None:
    shown, position = [], None
    for text in ("one\ntwo\n", "", "three\n"):
        write(driver, text)
        news = read_log_file(driver, position)
        shown.append(news.lines)
        # Store the position and load it again, as the database does between two reads.
        position = LogPosition.model_validate(news.position.model_dump(mode="json"))
    assert shown == [["one", "two"], [], ["three"]]


def test_a_line_that_is_being_written_waits_until_it_is_whole_or_its_driver_has_ended(
    driver: StartedDriver,
) -> None:
    write(driver, "one\nhal")
    news = read_log_file(driver, None)
    assert news.lines == ["one"]
    write(driver, "f\nlast wor")
    news = read_log_file(driver, news.position)
    assert news.lines == ["half"]
    assert read_log_file(replace(driver, alive=False), news.position).lines == ["last wor"]


def test_the_log_of_another_start_begins_anew(driver: StartedDriver) -> None:
    write(driver, "one\n")
    position = read_log_file(driver, None).position
    again = replace(driver, started_at=AT.replace(hour=13))
    assert read_log_file(again, position).lines == ["one"]


@pytest.mark.parametrize("line", ["x" * 20, "x" * (LONGEST_LINE + 1)])
def test_of_very_many_lines_the_newest_are_shown_and_the_others_are_counted_as_read(
    driver: StartedDriver, line: str
) -> None:
    lines = [f"{number} {line}" for number in range(2 * BYTES_AT_ONCE // len(line))]
    write(driver, "\n".join(lines) + "\n")
    news = read_log_file(driver, None)
    assert news.lines[0].endswith(driver.log)
    assert 100 < len(news.lines) <= LINES_AT_ONCE + 1
    assert all(len(shown) <= LONGEST_LINE + 1 for shown in news.lines)
    assert news.lines[-1].split()[0] == lines[-1].split()[0]
    assert read_log_file(driver, news.position).lines == []


def test_one_endless_line_does_not_stop_the_reading(driver: StartedDriver) -> None:
    write(driver, "x" * (2 * BYTES_AT_ONCE))
    news = read_log_file(driver, None)
    write(driver, "\nafter\n")
    assert "after" in read_log_file(driver, news.position).lines


def test_a_log_that_was_removed_is_empty(driver: StartedDriver) -> None:
    Path(driver.log).unlink()
    assert read_log_file(driver, None).lines == []


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\tat org.apache.spark", "    at org.apache.spark"),
        ("done\r[2026-01-01] INFO - Task succeeded", r"done\r[2026-01-01] INFO - Task succeeded"),
        ("\x1b[2J\x1b[1;31mred", r"\x1b[2J\x1b[1;31mred"),
        ("a\x85b\u2028c\u202ed\x00", r"a\x85b\u2028c\u202ed\x00"),
        ("::group::Post Execute", ": :group: :Post Execute"),
        ("%s %(password)s {0}", "%s %(password)s {0}"),
        ("grün 風車", "grün 風車"),
        ('password="hunter22", user=x', f"password={MASK}, user=x"),
    ],
)
def test_a_line_forges_no_line_folds_no_page_and_tells_no_secret(line: str, shown: str) -> None:
    assert shown_lines([line]) == [shown]


def test_bytes_that_are_no_text_are_shown_as_such(driver: StartedDriver) -> None:
    write(driver, b"\xff\xfe\n")
    assert read_log_file(driver, None).lines == ["\ufffd\ufffd"]
