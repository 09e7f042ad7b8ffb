"""Valid YAML of a conf file, before any model reads it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemill.errors import SpecError
from tidemill.spec.yaml_file import MAX_FILE_CHARACTERS, YamlFile, read_yaml


def read(folder: Path, content: str | bytes) -> YamlFile:
    file = folder / "file.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_yaml(file)


def refusal(folder: Path, content: str | bytes) -> SpecError:
    with pytest.raises(SpecError) as caught:
        read(folder, content)
    return caught.value


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("no", "no"),
        ("on", "on"),
        ("10:30", "10:30"),
        ("010", "010"),
        ("2024-01-01", "2024-01-01"),
        ("2024-02-31", "2024-02-31"),
        ('"5"', "5"),
        ("5", 5),
        ("-7", -7),
        ("1_000", 1000),
        ("0x10", 16),
        ("1.5", 1.5),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        (".inf", ".inf"),
        ("=", "="),
    ],
)
def test_a_scalar_is_text_unless_it_is_plainly_something_else(
    tmp_path: Path, written: str, read_as: object
) -> None:
    assert read(tmp_path, f"a: {written}\n").content == {"a": read_as}


def test_a_merge_key_is_a_key_like_any_other(tmp_path: Path) -> None:
    assert read(tmp_path, "<<: {a: 1}\n").content == {"<<": {"a": 1}}


def test_keys_are_text(tmp_path: Path) -> None:
    assert read(tmp_path, "{0: a, on: b, null: c}").content == {"0": "a", "on": "b", "null": "c"}


def test_lines_are_those_of_keys_and_items(tmp_path: Path) -> None:
    file = read(tmp_path, "# comment\na:\n  b: 1\n  c:\n    - x\n    - y\n")
    assert file.line_of(("a",)) == 2
    assert file.line_of(("a", "b")) == 3
    assert file.line_of(("a", "c", 1)) == 6
    assert file.line_of(("a", "missing", "deeper")) == 2
    assert file.line_of(("missing",)) == 1


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "the key 'a' stands twice"),
        ("a:\n\t- b\n", 2, "cannot start any token"),
        ("a: &x 1\nb: *x\n", 1, "anchors"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "tags"),
        ("a: 1\nb: !secret x\n", 2, "tags"),
        ("? [a]\n: b\n", 1, "a key is a list"),
        ("a: b: c\n", 1, "mapping values"),
        ("a: 1\n---\nb: 2\n", 2, "another document"),
        ("a: [1, 2\n", 2, "expected"),
    ],
)
def test_other_yaml_is_refused_with_its_line(tmp_path: Path, content: str, line: int, reason: str) -> None:
    error = refusal(tmp_path, content)
    assert error.error_id == "TIDE-SPEC-002"
    assert error.facts["file"] == f"{tmp_path / 'file.yaml'}:{line}"
    assert reason in str(error.facts["reason"])


@pytest.mark.parametrize("nested", ["[" * 100_000, "- " * 100_000, "{a: " * 60_000, "[" * 40 + "]" * 40])
def test_deep_nesting_is_refused_before_the_parser_recurses(tmp_path: Path, nested: str) -> None:
    error = refusal(tmp_path, nested)
    assert error.error_id == "TIDE-SPEC-002"
    assert "deep" in str(error.facts["reason"])


@pytest.mark.parametrize(
    "content", [b"a: \x00", b"a: \xff\xfe", "a: \ud800".encode("utf-8", "surrogatepass")]
)
def test_bytes_that_are_no_text_are_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    error = refusal(tmp_path, content)
    assert error.error_id in ("TIDE-SPEC-001", "TIDE-SPEC-002")
    assert str(error).isascii()


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1\n").content == {"a": 1}


def test_a_data_file_in_the_wrong_folder_is_not_parsed(tmp_path: Path) -> None:
    error = refusal(tmp_path, "a" * (MAX_FILE_CHARACTERS + 1))
    assert error.error_id == "TIDE-SPEC-001"
    assert error.facts["limit"] == MAX_FILE_CHARACTERS


def test_a_folder_or_a_missing_file_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.yaml"):
        with pytest.raises(SpecError) as caught:
            read_yaml(path)
        assert caught.value.error_id == "TIDE-SPEC-001"
        assert caught.value.facts["file"] == path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.one_of(st.binary(max_size=80), st.text("a:-[]{}&*!#|>'\"\n \t0", max_size=80).map(str.encode)))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    with contextlib.suppress(SpecError):
        read(tmp_path, content)
