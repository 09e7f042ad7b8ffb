"""The lines of Java that PySpark cannot do: exclusive commits, and local files without forks."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.support.jvm_programs import java_program, outcome

HADOOP = ("org.apache.hadoop.fs.LocalFileSystem", "org.apache.hadoop.fs.local.LocalFs")
OURS = ("io.tidemill.hadoop.LocalFileSystemWithoutForks", "io.tidemill.hadoop.LocalFsWithoutForks")


def use_local_files(folder: Path, file_systems: tuple[str, str], path: str | None) -> str:
    """Standard error of the probe, empty if all went well."""
    folder.mkdir()
    program = java_program("LocalFilesProbe", str(folder), *file_systems, path=path)
    _, errors = program.communicate()
    return "" if program.returncode == 0 else errors


def files_of(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Mode and content of every file and folder."""
    return {
        path.relative_to(folder).as_posix(): (
            stat.filemode(path.stat().st_mode),
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


def test_local_files_are_the_same_as_hadoops_and_need_no_other_program(tmp_path: Path) -> None:
    no_programs = str(tmp_path / "empty")
    assert use_local_files(tmp_path / "ours", OURS, no_programs) == ""
    # The probe would notice a fork: Hadoop's own classes fail where there is no chmod.
    assert "chmod" in use_local_files(tmp_path / "forks", HADOOP, no_programs)
    assert use_local_files(tmp_path / "hadoop", HADOOP, path=None) == ""
    files = files_of(tmp_path / "ours")
    assert files == files_of(tmp_path / "hadoop")
    assert files["made/part-0"] == ("-rw-r-----", b"rows\n")
    assert {"made/.part-0.crc", "7", ".7.crc"} <= files.keys()


def test_a_planned_batch_is_not_replaced_by_another_driver(tmp_path: Path) -> None:
    assert outcome(java_program("RenameProbe", str(tmp_path), OURS[0])) == "one=true\nother=false\n"
    assert (tmp_path / "7").read_text() == "one"
    # The probe detects races: with Hadoop's own class both writers succeed, and the second one's file stays.
    (tmp_path / "hadoop").mkdir()
    assert (
        outcome(java_program("RenameProbe", str(tmp_path / "hadoop"), HADOOP[0])) == "one=true\nother=true\n"
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log")


@pytest.fixture(scope="module")
def answers(log: Path) -> dict[str, str]:
    """Return the log store's answer to each case of the probe."""
    lines = outcome(java_program("LogStoreProbe", str(log))).splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_commit_is_written_once(log: Path, answers: dict[str, str]) -> None:
    assert answers["new"] == "written"
    assert answers["existing"] == "java.nio.file.FileAlreadyExistsException"
    assert (log / "00000000000000000000.json").read_text() == "first\nline\n"


def test_a_commit_whose_writing_fails_leaves_nothing(log: Path, answers: dict[str, str]) -> None:
    assert answers["failing"] == "java.lang.IllegalStateException"
    assert list(log.glob("*00000000000000000001*")) == []


def test_a_commit_into_a_missing_folder_is_refused(answers: dict[str, str]) -> None:
    assert answers["no_folder"] == "java.io.FileNotFoundException"


def test_the_pointer_to_the_last_checkpoint_may_be_overwritten(log: Path, answers: dict[str, str]) -> None:
    assert (answers["overwritten"], answers["overwritten_again"]) == ("written", "written")
    assert (log / "_last_checkpoint").read_text() == "new\n"
