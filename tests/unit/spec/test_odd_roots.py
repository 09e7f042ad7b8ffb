"""Storage roots with odd names: each legal one is used as it is, any other is refused by its part."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tidemill.errors import SpecError
from tidemill.names import Layout, literal_glob, sql_table
from tidemill.spec.files_place import files_place, overlap
from tidemill.spec.project import load_environment, resolve_pipeline
from tidemill.spec.project_folder import Project

LEGAL = [
    "100%",
    "%zz",
    "a#b",
    "a?b",
    "[x]",
    "{a,b}",
    "a*b",
    "a;b&c+d=e",
    "a:b",
    "file:",
    'it\'s "b" `c`',
    " a b ",
    "$HOME ~^|<>!,@()",
    unicodedata.normalize("NFC", "Übermäßig"),
    unicodedata.normalize("NFD", "Übermäßig"),
    "😀",
    "x" * 255,
    "/".join(["x" * 250] * 13),
]


def layout_of(folder: Path, root: str) -> Layout:
    ConfProject(folder).write("conf/environments/local.yaml", f"root: {quoted(root)}\n")
    return load_environment(Project(folder), "local", {}).layout


def quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


def refusal(folder: Path, root: str) -> SpecError:
    with pytest.raises(SpecError) as refused:
        layout_of(folder, root)
    return refused.value


@pytest.mark.parametrize("name", LEGAL)
def test_a_project_folder_may_have_any_legal_name(tmp_path: Path, name: str) -> None:
    assert layout_of(tmp_path / name, ".data").root == f"{tmp_path}/{name}/.data"


@pytest.mark.parametrize("name", LEGAL[:-1])
def test_a_root_may_have_any_legal_name(tmp_path: Path, name: str) -> None:
    layout = layout_of(tmp_path, f"/lake/{name}")
    assert layout.root == f"/lake/{name}"
    uri = Path(f"/lake/{name}").as_uri()
    if len(uri) < 700:
        assert layout_of(tmp_path, uri).root == layout.root


REFUSED = {
    "a%20b": "%20 stands for another character in a URL, and delta-rs decodes it",
    "a%2Fb": "%2F stands for another character in a URL, and delta-rs decodes it",
    "a%2520b": "%25 stands for another character in a URL, and delta-rs decodes it",
    "a\\b": "a backslash separates folders for some clients",
    "a\nb": "it holds a control character, or is not UTF-8",
    os.fsdecode(b"a\xffb"): "it holds a control character, or is not UTF-8",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_project_folder_in_which_clients_would_disagree_is_refused(tmp_path: Path, name: str) -> None:
    error = refusal(tmp_path / name, ".data")
    assert error.error_id == "TIDE-SPEC-074"
    assert error.facts["part"] == ascii(name)[1:-1]
    assert error.facts["because"] == REFUSED[name]
    # The fix.
    assert layout_of(tmp_path / name, "/lake").root == "/lake"


def test_the_root_itself_is_refused_by_its_part(tmp_path: Path) -> None:
    error = refusal(tmp_path, "/lake/a%20b/c")
    assert (error.error_id, error.facts["part"]) == ("TIDE-SPEC-074", "a%20b")
    error = refusal(tmp_path, f"/lake/{'ü' * 128}/c")
    assert error.facts["because"] == "a name has 255 bytes at most"
    error = refusal(tmp_path / "/".join(["x" * 250] * 14), "a")
    assert error.facts["because"].startswith("it is longer than 3,500 bytes")


@pytest.mark.parametrize("root", ["s3://bucket/a#b", "s3://bucket/a?b", "s3://bucket/a%20b"])
def test_a_uri_whose_clients_would_cut_or_decode_it_is_refused(tmp_path: Path, root: str) -> None:
    assert refusal(tmp_path, root).error_id == "TIDE-SPEC-074"


def test_a_file_uri_with_a_host_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, "file://lake/a").error_id == "TIDE-SPEC-003"


def test_validate_refuses_such_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a%20b"
    ConfProject(folder)
    tidemill = CommandLine(folder, capsys.readouterr)
    assert tidemill("validate") == 2
    assert tidemill.err.startswith("TIDE-SPEC-074")


@pytest.mark.parametrize(("name", "path"), [("a:b", "landing/*/x"), ("a:[b]", "landing")])
def test_a_pattern_below_a_folder_with_a_colon_is_refused(tmp_path: Path, name: str, path: str) -> None:
    project = ConfProject(tmp_path / name)
    declared = "description: x\nowner: x\nsinks: [{delta: {table: bronze/x}}]\n"
    source = "source: {files: {path: PATH, format: text}}\n"
    project.write("conf/pipelines/orders.yaml", declared + source.replace("PATH", quoted(path)))
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-073"
    assert error.facts["folder"] == f"{tmp_path}/{name}/.data/{path}"
    # The fix.
    project.write("conf/environments/local.yaml", "root: /lake\n")
    resolve_pipeline(load_environment(Project(tmp_path / name), "local", {}), "orders")


def test_no_character_of_a_root_makes_a_source_unarchivable_or_hides_an_overlap(tmp_path: Path) -> None:
    layout = Layout("/[x]/{a,b}*")
    place = files_place(layout, "landing/*/new")
    assert place is not None
    assert (place.folder, place.archive) == ("/[x]/{a,b}*/landing", "/[x]/{a,b}*/archived/landing")
    assert place.archive_path == "/\\[x\\]/\\{a,b\\}\\*/archived/landing/*/new"
    assert place.name_of("/[x]/{a,b}*/landing/1/new/a.json") == "1/new/a.json"
    assert overlap(layout.folder_parts("landing/*"), layout.folder_parts("landing/1"))


def test_spark_takes_no_character_of_a_path_for_a_pattern_or_the_end_of_a_name() -> None:
    assert literal_glob("/a*b/[x]/{a,b}/c?/d\\e") == "/a\\*b/\\[x\\]/\\{a,b\\}/c\\?/d\\\\e"
    assert Layout("/[x]").folder_pattern("landing/*/new") == "/\\[x\\]/landing/*/new"
    assert Layout("/[x]").folder_pattern("file:///data/*") == "file:///data/*"
    assert sql_table("/a`b") == "delta.`/a``b`"
