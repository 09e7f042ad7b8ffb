"""Models in a real MLflow registry: found by alias, stage and version, loaded, and seen to change."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.conf_project import ENVIRONMENT, ConfProject
from tests.support.mlflow_server import MlflowServer, mlflow_server
from tests.support.model_registry import FakeModelRegistry
from tests.support.saved_models import save_threshold
from tidemill.engine.model_files import digest_of
from tidemill.engine.models import with_models
from tidemill.errors import SpecError
from tidemill.ledger.code import code_of
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Limit of each version of the model; amounts above it are fraud.
LIMITS = (10.0, 100.0)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("saved")
    return [save_threshold(folder / f"above_{limit:g}", limit) for limit in LIMITS]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with mlflow_server(tmp_path_factory.mktemp("mlflow") / "server") as running:
        yield running


@pytest.fixture
def client(server: MlflowServer, saved: list[Path], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Register both versions; the first one is the champion and in production."""
    from mlflow import MlflowClient

    # Files also go through the server.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    client = MlflowClient(server.url, server.url)
    if not client.search_registered_models():
        client.create_registered_model("fraud")
        for folder in saved:
            run = client.create_run("0").info
            client.log_artifacts(run.run_id, str(folder), "model")
            client.create_model_version("fraud", f"{run.artifact_uri}/model", run.run_id)
    put_in_place(client, "1")
    return client


def put_in_place(client: Any, version: str) -> None:
    """Make it the champion, and the only one in production."""
    client.set_registered_model_alias("fraud", "champion", version)
    with warnings.catch_warnings():
        # Stages are MLflow's old way, and pipelines may still name them.
        warnings.simplefilter("ignore", FutureWarning)
        client.transition_model_version_stage("fraud", version, "Production", archive_existing_versions=True)


@pytest.fixture
def project(tmp_path: Path, server: MlflowServer) -> ConfProject:
    project = ConfProject(tmp_path / "project")
    project.write("spark_apps/transforms/orders.py", "def transform(orders, fraud): return orders")
    project.write("conf/environments/local.yaml", f'{ENVIRONMENT}model_registry: {{url: "{server.url}"}}\n')
    return project


def found(project: ConfProject, uri: str) -> Pipeline:
    project.replace("sinks:", f"transform: orders:transform\nmodels:\n  fraud: {{uri: {uri}}}\nsinks:")
    pipeline = project.resolve()
    return with_models(pipeline, Store(pipeline.layout.root))


def scored(pipeline: Pipeline) -> list[int]:
    """Return the model's predictions for 50 and 150."""
    import mlflow.pyfunc

    model = mlflow.pyfunc.load_model(pipeline.models["fraud"].folder)
    return [int(said) for said in model.predict(pd.DataFrame({"amount": [50.0, 150.0]}))]


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("uri", "version", "says"),
    [
        ("models:/fraud@champion", "1", [1, 1]),
        ("models:/fraud/Production", "1", [1, 1]),
        ("models:/fraud/2", "2", [0, 1]),
    ],
)
def test_a_registered_model_is_found_by_alias_stage_and_version_and_loaded(
    project: ConfProject, saved: list[Path], uri: str, version: str, says: list[int]
) -> None:
    pipeline = found(project, uri)
    model = pipeline.models["fraud"]
    assert (model.uri, model.version, model.flavour) == (uri, version, "python_function")
    assert scored(pipeline) == says
    # The copy has the registered files byte by byte, and one file that MLflow's client adds.
    copy = Path(model.folder)
    assert model.digest == digest_of(copy)
    (copy / "registered_model_meta").unlink()
    assert digest_of(copy) == digest_of(saved[int(version) - 1])


def test_a_moved_alias_and_stage_are_another_model_at_the_next_start(
    project: ConfProject, client: Any
) -> None:
    uris = ("models:/fraud@champion", "models:/fraud/Production")
    before = [found(project, uri) for uri in uris]
    put_in_place(client, "2")
    now = [found(project, uri) for uri in uris]
    for old, new in zip(before, now, strict=True):
        assert (old.models["fraud"].version, new.models["fraud"].version) == ("1", "2")
        assert (scored(old), scored(new)) == ([1, 1], [0, 1])
        # The code is the same but the decision rules are not, so the gate and the ledger report the change.
        assert code_of(old).digest == code_of(new).digest
        assert code_of(old).rules != code_of(new).rules


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("name", ["fraud@nobody", "nothing@champion", "fraud/7", "fraud/Staging"])
def test_a_name_that_the_registry_does_not_know_is_refused(project: ConfProject, name: str) -> None:
    with pytest.raises(SpecError) as refused:
        found(project, f"models:/{name}")
    assert (refused.value.error_id, refused.value.facts["uri"]) == ("TIDE-MODEL-002", f"models:/{name}")


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("registered-models/alias", {"name": "fraud", "alias": "champion"}),
        ("registered-models/alias", {"name": "fraud", "alias": "nobody"}),
        ("registered-models/alias", {"name": "nothing", "alias": "champion"}),
        ("registered-models/get-latest-versions", {"name": "fraud", "stages": ["Production"]}),
        ("registered-models/get-latest-versions", {"name": "fraud", "stages": ["Staging"]}),
        ("registered-models/get-latest-versions", {"name": "nothing", "stages": ["Production"]}),
        ("registered-models/get", {"name": "fraud"}),
        ("registered-models/get", {"name": "nothing"}),
        ("model-versions/get-download-uri", {"name": "fraud", "version": "2"}),
        ("model-versions/get-download-uri", {"name": "fraud", "version": "7"}),
    ],
)
def test_the_registry_of_the_unit_tests_answers_as_the_real_one(
    server: MlflowServer, saved: list[Path], what: str, given: dict[str, Any]
) -> None:
    fake = FakeModelRegistry(
        versions={"fraud": [*saved]},
        aliases={("fraud", "champion"): 1},
        stages={("fraud", "Production"): 1},
    )
    expected_status, expected = fake.told(what, given)
    status, told = server.ask(what, given)
    if "artifact_uri" in expected:
        # Here it is a folder, there a place that the server hands over.
        assert told.pop("artifact_uri").startswith("mlflow-artifacts:/")
        del expected["artifact_uri"]
    assert (status, part_of(told, expected)) == (expected_status, expected)


def part_of(told: Any, expected: Any) -> Any:
    """Return the part of an answer whose fields `expected` also has."""
    if isinstance(expected, dict):
        return {name: part_of(told.get(name), value) for name, value in expected.items()}
    if isinstance(expected, list):
        return [part_of(one, other) for one, other in zip(told, expected, strict=True)]
    return told
