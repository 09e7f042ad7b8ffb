"""The files of a kept version: their selection, their size, and their later use."""

from __future__ import annotations

import base64
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.cluster_project import ClusterProject
from tests.support.small_project import STREAM, SmallProject
from tidemill.control.decide import kept_version
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.kept_version import LARGEST, KeptVersion, packed, unpacked
from tidemill.control.decide.remembered import KEPT_ENDINGS, LONGEST_TEXT, History, Remembered, remembered_in
from tidemill.control.decide.rollback import Rollback
from tidemill.errors import DataError
from tidemill.spec.project import Pipeline, resolve_pipeline

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
WITH_CODE = STREAM + "transform: orders:transform\n"


def declared(project: SmallProject, code: str = "def transform(rows):\n    return rows\n") -> Pipeline:
    file = project.folder / "spark_apps/transforms/orders.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code)
    project.declare("orders", WITH_CODE)
    return resolve_pipeline(project.environment, "orders")


def kept_of(pipeline: Pipeline) -> KeptVersion:
    kept = packed(pipeline, NOW)
    assert kept is not None
    return kept


def test_a_version_that_is_too_large_is_not_kept(project: SmallProject) -> None:
    # Random enough not to be packed well.
    noise = "".join(f"# {hash((number, 'x'))}\n" for number in range(LARGEST // 10))
    assert packed(declared(project, f"def transform(rows):\n    return rows\n{noise}"), NOW) is None


@pytest.mark.parametrize(
    "path",
    [
        "../escaped.py",
        "/tmp/escaped.py",
        "spark_apps/transforms/../../../escaped.py",
        "dags/own.py",
        "conf/x",
    ],
)
def test_nothing_is_written_but_files_of_a_version(project: SmallProject, tmp_path: Path, path: str) -> None:
    pipeline = declared(project)
    kept = kept_of(pipeline)
    evil = kept.model_copy(update={"files": {path: next(iter(kept.files.values())), **kept.files}})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError) as refused, unpacked(pipeline.environment, "orders", evil):
        pytest.fail("it was unpacked")
    assert refused.value.error_id == "TIDE-CTRL-097"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_grows_without_bound_is_refused(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_version, "LARGEST_FILE", 1_000)
    pipeline = declared(project)
    kept = kept_of(pipeline)
    bomb = base64.b64encode(zlib.compress(b" " * 1_001)).decode()
    grown = kept.model_copy(update={"files": {**kept.files, "spark_apps/transforms/orders.py": bomb}})
    with pytest.raises(DataError) as refused, unpacked(pipeline.environment, "orders", grown):
        pytest.fail("it was unpacked")
    assert "larger than 1000 bytes" in str(refused.value.facts["cause"])


def test_what_was_kept_for_an_environment_of_another_name_is_told(project: SmallProject) -> None:
    pipeline = declared(project)
    kept = kept_of(pipeline)
    files = {path: text for path, text in kept.files.items() if "environments" not in path}
    with (
        pytest.raises(DataError) as refused,
        unpacked(pipeline.environment, "orders", kept.model_copy(update={"files": files})),
    ):
        pytest.fail("it was unpacked")
    assert refused.value.error_id == "TIDE-CTRL-097"


def test_it_is_not_started_at_another_place(project: SmallProject) -> None:
    pipeline = declared(project)
    kept = kept_of(pipeline)
    project.environ("root: elsewhere\n")
    with pytest.raises(DataError) as refused, unpacked(project.environment, "orders", kept):
        pytest.fail("it was unpacked")
    assert refused.value.facts["cause"] == "it ran elsewhere"


def test_its_files_stay_for_a_driver_and_those_of_others_go(project: SmallProject) -> None:
    pipeline = declared(project)
    first = kept_of(pipeline)
    with unpacked(pipeline.environment, "orders", first) as made:
        assert made.version_digest == first.digest
    again = declared(project, "def transform(rows):\n    return rows.limit(1)\n")
    second = kept_of(again)
    with unpacked(again.environment, "orders", second) as made:
        folders = sorted(folder.name for folder in (again.environment.run_folder / "versions").iterdir())
        assert folders == sorted([f"orders.{first.digest}", f"orders.{second.digest}"])
        assert made.named_files[0].read_text().endswith("limit(1)\n")
    assert [folder.name for folder in (again.environment.run_folder / "versions").iterdir()] == [
        f"orders.{second.digest}"
    ]


def test_in_a_cluster_all_but_the_image_is_as_the_environment_says_today(tmp_path: Path) -> None:
    cluster_project = ClusterProject(tmp_path / "project")
    pipeline = cluster_project.pipeline()
    kept = kept_of(pipeline)
    file = cluster_project.folder / "conf/environments/plant.yaml"
    text = file.read_text().replace(":0.1.0", ":0.2.0").replace("secrets: [plant]", "secrets: [renamed]")
    file.write_text(text)
    with unpacked(cluster_project.environment, "orders", kept) as made:
        settings = made.environment.spec.kubernetes
        assert settings is not None
        assert (settings.image, settings.secrets) == ("docker.io/tidemill/spark:0.1.0", ["renamed"])
        assert made.version_digest == kept.digest == pipeline.version_digest
        folder = made.environment.project.sources
    assert not folder.exists()


class Text:
    """A memory that is a variable."""

    text: str | None = None

    def read(self) -> str | None:
        return self.text

    def change(self, edit: object) -> None:
        assert callable(edit)
        self.text = edit(self.text)


def test_a_memory_fits_into_a_config_map_whatever_errors_say(project: SmallProject) -> None:
    kept = kept_of(declared(project)).model_copy(
        update={"files": {"conf/pipelines/orders.yaml": "x" * LARGEST}}
    )
    memory = Text()
    history = History(memory)
    history.keep(kept)
    for number in range(KEPT_ENDINGS):
        at = NOW + timedelta(minutes=number)
        error = {"id": "TIDE-TEST-001", "problem": "水" * 5_000}
        history.note(
            Ending(run_id=str(number), digest="d", started_at=at, ended_at=at, result="failed", error=error)
        )
    assert memory.text is not None
    assert len(memory.text.encode()) <= LONGEST_TEXT
    known = remembered_in(memory.text)
    assert known.kept == kept
    assert known.endings[-1].run_id == str(KEPT_ENDINGS - 1)
    assert 10 < len(known.endings) < KEPT_ENDINGS


def test_a_memory_of_one_long_reason_is_written_all_the_same() -> None:
    memory = Text()
    rollback = Rollback(version="new", to="old", at=NOW, why="x" * LONGEST_TEXT)
    History(memory).note_rollback(rollback)
    assert remembered_in(memory.text).rollback == rollback


def test_a_damaged_memory_counts_as_none(project: SmallProject) -> None:
    memory = Text()
    History(memory).keep(kept_of(declared(project)))
    assert memory.text is not None
    assert remembered_in(memory.text) != Remembered()
    assert remembered_in(memory.text.replace('"digest":', '"digest_":', 1)) == Remembered()
