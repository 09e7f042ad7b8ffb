"""Models are found, and compared with what was declared, before any of their code runs."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.conf_project import ENVIRONMENT, ConfProject
from tests.support.model_registry import FakeModelRegistry, model_registry
from tidemill.engine.model_files import digest_of, put_folder
from tidemill.engine.models import with_models
from tidemill.errors import GateRefusedError, SpecError, TidemillError, UnavailableError
from tidemill.ledger.code import code_of
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

MLMODEL = """
flavors:
  {flavour}: {{model_data: data}}
mlflow_version: 3.17.2
"""


@pytest.fixture
def project(tmp_path: Path) -> ConfProject:
    project = ConfProject(tmp_path / "project")
    project.write("spark_apps/transforms/orders.py", "def transform(orders, fraud): return orders")
    return project


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeModelRegistry]:
    with model_registry(authorization="Bearer opensesame") as running:
        yield running


def saved(folder: Path, flavour: str = "python_function", data: bytes = b"tree") -> Path:
    """Return a folder as MLflow saves it."""
    for name, content in {"MLmodel": MLMODEL.format(flavour=flavour).encode(), "data/a b.pkl": data}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder


def declare(project: ConfProject, model: str, **registry: str) -> None:
    project.replace("sinks:", f"transform: orders:transform\nmodels:\n  fraud: {{{model}}}\nsinks:")
    if registry:
        keys = "".join(f", {name}: {value}" for name, value in registry.items() if name != "url")
        environment = f'{ENVIRONMENT}model_registry: {{url: "{registry["url"]}"{keys}}}\n'
        project.write("conf/environments/local.yaml", environment)


def found(project: ConfProject) -> Pipeline:
    pipeline = project.resolve()
    return with_models(pipeline, Store(pipeline.layout.root))


def refused(project: ConfProject, kind: type[TidemillError]) -> tuple[str, dict[str, Any]]:
    with pytest.raises(kind) as caught:
        found(project)
    return caught.value.error_id, dict(caught.value.facts)


def test_a_model_is_known_by_the_digest_that_sha256sum_tells(tmp_path: Path) -> None:
    folder = saved(tmp_path / "fraud")
    # Files are sorted by bytes, so upper case comes before lower case.
    for name in ("B", "a", "data.txt", "data/_x", "data/.hidden"):
        (folder / name).write_text(name)
    command = r"find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"
    told = subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True, text=True).stdout
    assert digest_of(folder) == f"sha256:{told.split()[0]}"


def test_what_spark_reads_is_the_folder_that_was_compared_and_nothing_else(tmp_path: Path) -> None:
    store, folder = Store(str(tmp_path)), saved(tmp_path / "fraud")
    (tmp_path / "copy/data").mkdir(parents=True)
    (tmp_path / "copy/data/part-1").write_bytes(b"of another model")
    (tmp_path / "copy/MLmodel").write_bytes(b"of another model")
    put_folder(store, folder, f"{tmp_path}/copy")
    assert digest_of(tmp_path / "copy") == digest_of(folder)


def test_a_model_that_was_declared_is_copied_before_it_is_compared(project: ConfProject) -> None:
    folder = saved(project.folder / ".data/models/fraud")
    declare(project, f"path: models/fraud, digest: {digest_of(folder)}")
    pipeline = found(project)
    model = pipeline.models["fraud"]
    assert (model.uri, model.version, model.flavour) == ("path:models/fraud", None, "python_function")
    (folder / "data/a b.pkl").write_bytes(b"changed meanwhile")
    assert digest_of(Path(model.folder)) == model.digest
    used = code_of(pipeline).models
    assert used is not None
    assert (used["fraud"].uri, used["fraud"].digest) == (model.uri, model.digest)


def test_a_flipped_byte_is_refused_before_anything_is_loaded(project: ConfProject) -> None:
    folder = saved(project.folder / ".data/models/fraud")
    declared = digest_of(folder)
    declare(project, f"path: models/fraud, digest: {declared}")
    assert found(project).models
    marker = project.folder / "was_loaded"
    # Loading it leaves the marker.
    evil = f"cbuiltins\nopen\n(V{marker}\nVw\ntR.".encode()
    (folder / "data/a b.pkl").write_bytes(evil)
    error_id, facts = refused(project, GateRefusedError)
    assert (error_id, facts["declared"], facts["found"]) == ("TIDE-MODEL-003", declared, digest_of(folder))
    saved(folder)
    flipped = bytearray((folder / "MLmodel").read_bytes())
    flipped[-2] ^= 1
    (folder / "MLmodel").write_bytes(flipped)
    assert refused(project, GateRefusedError)[0] == "TIDE-MODEL-003"
    saved(folder)
    (folder / "more.py").write_text("")
    assert refused(project, GateRefusedError)[0] == "TIDE-MODEL-003"
    assert not marker.exists()
    pickle.loads(evil).close()
    assert marker.exists()


def test_a_model_that_is_not_there_and_one_of_another_kind_are_refused(project: ConfProject) -> None:
    nothing = f"sha256:{'0' * 64}"
    declare(project, f"path: models/fraud, digest: {nothing}")
    error_id, facts = refused(project, SpecError)
    assert (error_id, facts["model"], facts["found_in"]) == ("TIDE-MODEL-002", "fraud", "models/fraud")
    folder = saved(project.folder / ".data/models/fraud", "langchain")
    declare(project, f"path: models/fraud, digest: {digest_of(folder)}")
    error_id, facts = refused(project, SpecError)
    assert (error_id, facts["flavours"]) == ("TIDE-MODEL-004", "langchain")
    saved(folder, "spark")
    declare(project, f"path: models/fraud, digest: {digest_of(folder)}, result_type: double")
    error_id, facts = refused(project, SpecError)
    assert (error_id, facts["result_type"]) == ("TIDE-MODEL-004", "double")
    (folder / "MLmodel").unlink()
    declare(project, f"path: models/fraud, digest: {digest_of(folder)}")
    assert refused(project, SpecError)[1]["flavours"] == "none"


def test_without_mlflow_the_driver_says_what_to_install(
    project: ConfProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(project, f"path: models/fraud, digest: sha256:{'0' * 64}")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    error_id, facts = refused(project, SpecError)
    assert (error_id, facts["models"]) == ("TIDE-MODEL-001", "fraud")


@pytest.mark.parametrize("name", ["fraud@champion", "fraud/2", "fraud/Production"])
def test_a_registered_model_is_found_by_alias_version_and_stage(
    project: ConfProject, registry: FakeModelRegistry, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_MLFLOW", "opensesame")
    registry.versions["fraud"] = [saved(project.folder / "a"), saved(project.folder / "b", data=b"other")]
    registry.aliases["fraud", "champion"] = registry.stages["fraud", "Production"] = 2
    declare(project, f"uri: models:/{name}", url=registry.url, token="mlflow")
    variables = dict(os.environ)
    pipeline = found(project)
    model = pipeline.models["fraud"]
    assert (model.uri, model.version) == (f"models:/{name}", "2")
    assert (Path(model.folder) / "data/a b.pkl").read_bytes() == b"other"
    # The token is in no variable that Spark and its tasks would inherit.
    assert {**variables, "MLFLOW_DISABLE_TELEMETRY": "true"} == dict(os.environ)
    registry.versions["fraud"][1] = registry.versions["fraud"][0]
    before, now = code_of(pipeline), code_of(found(project))
    # The code that decides about records has changed, which only a driver knows.
    assert (now.digest, now.rules != before.rules) == (before.digest, True)
    # A pinned digest is also checked.
    declare(project, f"uri: models:/{name}, digest: {model.digest}", url=registry.url, token="mlflow")
    assert refused(project, GateRefusedError)[0] == "TIDE-MODEL-003"


@pytest.mark.parametrize("name", ["fraud@nobody", "nothing@champion", "fraud/7", "fraud/Staging"])
def test_a_name_that_the_registry_does_not_know_is_refused(
    project: ConfProject, registry: FakeModelRegistry, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_MLFLOW", "opensesame")
    registry.versions["fraud"] = [saved(project.folder / "a")]
    declare(project, f"uri: models:/{name}", url=registry.url, token="mlflow")
    error_id, facts = refused(project, SpecError)
    assert (error_id, facts["uri"]) == ("TIDE-MODEL-002", f"models:/{name}")


def test_a_store_that_mlflow_cannot_reach_from_here_is_told(
    project: ConfProject, registry: FakeModelRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_MLFLOW", "opensesame")
    registry.versions["fraud"] = ["s3://models/fraud"]
    declare(project, "uri: models:/fraud/1", url=registry.url, token="mlflow")
    error_id, facts = refused(project, SpecError)
    assert (error_id, facts["reason"]) == ("TIDE-MODEL-008", "No module named 'botocore'")


@pytest.mark.parametrize("scheme", ["http", "https", "mlflow-artifacts"])
def test_the_registrys_credentials_go_to_no_other_server(
    project: ConfProject, registry: FakeModelRegistry, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_MLFLOW", "opensesame")
    with model_registry() as other:
        registry.versions["fraud"] = [f"{scheme}://{urlsplit(other.url).netloc}/fraud"]
        declare(project, "uri: models:/fraud/1", url=registry.url, token="mlflow")
        error_id, facts = refused(project, SpecError)
    assert (error_id, facts["server"]) == ("TIDE-MODEL-009", "127.0.0.1")


def test_a_registry_that_does_not_let_us_in_or_is_not_there_is_tried_again_later(
    project: ConfProject, registry: FakeModelRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.versions["fraud"] = [saved(project.folder / "a")]
    monkeypatch.setenv("TIDEMILL_SECRET_MLFLOW", "wrongpassword")
    declare(project, "uri: models:/fraud/1", url=registry.url, token="mlflow")
    error_id, facts = refused(project, UnavailableError)
    assert (error_id, facts["registry"]) == ("TIDE-MODEL-005", registry.url)
    assert "wrongpassword" not in str(facts)
    monkeypatch.setattr("tidemill.engine.model_registry._RETRIES", "0")
    declare(project, "uri: models:/fraud/1", url="http://localhost:1")
    assert refused(project, UnavailableError)[0] == "TIDE-MODEL-005"
