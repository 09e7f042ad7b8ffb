"""Models in the pipeline file: named in one place, pinned if they are files, given to the transform."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ENVIRONMENT, ConfProject
from tidemill.ledger.code import code_of

DIGEST = f"sha256:{'a' * 64}"
BY_PATH = f"path: models/fraud, digest: '{DIGEST}'"
BY_NAME = "uri: models:/fraud_detection@champion"
REGISTRY = ENVIRONMENT + "model_registry: {url: 'https://mlflow.example.com'}\n"


def declare(project: ConfProject, model: str, transform: str = "orders:transform") -> None:
    project.replace("sinks:", f"transform: {transform}\nmodels:\n  fraud: {{{model}}}\nsinks:")
    project.write("spark_apps/transforms/orders.py", "def transform(orders, fraud): return orders")
    project.write("spark_apps/transforms/orders.sql", "SELECT * FROM source")


@pytest.mark.parametrize("name", ["models:/fraud@champion", "models:/fraud/3", "models:/fraud_1/Production"])
def test_a_registered_model_is_named_as_mlflow_names_it(project: ConfProject, name: str) -> None:
    project.write("conf/environments/local.yaml", REGISTRY)
    declare(project, f"uri: {name}")
    models = project.resolve().spec.models
    assert models is not None
    assert models["fraud"].uri == name


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("path: models/fraud", "needs `digest`"),
        (f"{BY_PATH}, {BY_NAME}", "found both"),
        ("result_type: double", "found none"),
        (f"{BY_NAME}, result_type: doubel", "did you mean double?"),
        ("uri: fraud@champion", "models:/"),
        ("uri: models:/fraud", "models:/"),
        ("uri: s3://bucket/fraud", "models:/"),
        (f"path: ../fraud, digest: '{DIGEST}'", "path"),
        (f"path: s3://bucket/fraud, digest: '{DIGEST}'", "path"),
        (f"path: /fraud, digest: '{DIGEST}'", "path"),
        ("path: models/fraud, digest: 'sha256:abc'", "digest"),
    ],
)
def test_a_model_is_found_in_one_place_and_files_have_a_digest(
    project: ConfProject, model: str, says: str
) -> None:
    declare(project, model)
    assert says in str(project.refusal())


def test_a_name_needs_a_registry(project: ConfProject) -> None:
    declare(project, BY_NAME)
    error = project.refusal()
    assert (error.error_id, error.facts["file"]) == (
        "TIDE-MODEL-006",
        project.folder / "conf/environments/local.yaml",
    )


@pytest.mark.parametrize("transform", ["", "orders.sql"])
def test_models_need_a_function_that_takes_them(project: ConfProject, transform: str) -> None:
    declare(project, BY_PATH, transform)
    if not transform:
        project.replace("sinks:", f"models:\n  fraud: {{{BY_PATH}}}\nsinks:")
    assert "a `transform` that is a function" in str(project.refusal())


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def transform(orders): ...", "no parameter for the model fraud"),
        ("def transform(fraud, /): ...", "no parameter for the model fraud"),
        ("def transform(fraud): ...", "the rows come first"),
        ("def transform(fraud, orders): ...", "the rows come first"),
        ("def transform(*, fraud): ...", "0 parameters"),
        ("def transform(a, b, fraud): ...", "2 parameters"),
        ("def transform(a, fraud): return fraud.predict(a).collect()", "never runs them"),
    ],
)
def test_a_transform_takes_the_rows_and_each_model_by_its_name(
    project: ConfProject, source: str, says: str
) -> None:
    declare(project, BY_PATH)
    project.write("spark_apps/transforms/orders.py", source)
    assert says in project.refusal().problem
    project.write(
        "spark_apps/transforms/orders.py", "def transform(rows, *, fraud): return fraud.predict(rows)"
    )
    project.resolve()


def test_with_several_sources_models_are_further_names(project: ConfProject) -> None:
    declare(project, BY_PATH)
    text = (project.folder / "conf/pipelines/orders.yaml").read_text()
    source = text[text.index("source:") : text.index("transform:")]
    named = (
        "sources:\n  orders: {kafka: {topic: orders}}\n  users: {delta: {table: silver/users}, as: table}\n"
    )
    project.write("conf/pipelines/orders.yaml", text.replace(source, named))
    assert "the sources are orders, users" in project.refusal().problem
    project.write("spark_apps/transforms/orders.py", "def transform(users, fraud, orders): return orders")
    project.resolve()
    project.write("conf/pipelines/orders.yaml", text.replace(source, named).replace("  fraud:", "  users:"))
    assert "is a source and a model" in str(project.refusal())


def test_another_digest_is_another_definition_and_other_code(project: ConfProject) -> None:
    declare(project, BY_PATH)
    before = project.resolve()
    declare(project, BY_PATH.replace("a" * 64, "b" * 64))
    after = project.resolve()
    assert before.definition_digest != after.definition_digest
    assert code_of(before).digest != code_of(after).digest
    assert code_of(after).models is None
