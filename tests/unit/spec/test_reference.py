"""Generated files say what the models say, and editors can use them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.support.conf_project import ENVIRONMENT, PIPELINE
from tidemill.spec.environment import EnvironmentSpec
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.reference import (
    GENERATE_COMMAND,
    differing_files,
    generated_files,
    json_schema,
    write_generated,
)

REPOSITORY = Path(__file__).parents[3]


@cache
def generated() -> dict[str, str]:
    """Return the generated files, computed once per test run."""
    return generated_files()


def test_the_generated_files_of_this_repository_are_up_to_date() -> None:
    assert differing_files(REPOSITORY) == [], f"run: {GENERATE_COMMAND}"


def test_a_changed_or_missing_file_is_found(tmp_path: Path) -> None:
    written = write_generated(tmp_path)
    assert differing_files(tmp_path) == []
    written[0].write_text("{}")
    written[1].unlink()
    assert differing_files(tmp_path) == written[:2]


def test_two_generations_are_equal_byte_for_byte() -> None:
    assert generated_files() == generated()


@pytest.mark.parametrize(("model", "text"), [(PipelineSpec, PIPELINE), (EnvironmentSpec, ENVIRONMENT)])
def test_an_editor_accepts_what_the_models_accept(model: type, text: str) -> None:
    schema = json_schema(model)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(text), schema)


@pytest.mark.parametrize("file", sorted((REPOSITORY / "conf").glob("*/*.yaml")), ids=lambda file: file.stem)
def test_an_editor_finds_its_schema_in_every_conf_file(file: Path) -> None:
    first, _, _ = file.read_text().partition("\n")
    prefix = "# yaml-language-server: $schema="
    assert first.startswith(prefix)
    assert (file.parent / first.removeprefix(prefix)).resolve() in [
        (REPOSITORY / path).resolve() for path in generated()
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": {"kafka": {"topik": "x"}}},
        {"source": {"kafka": {"topic": "x"}, "rate": {}}},
        {"sinks": []},
        {"run": {"trigger": "10"}},
    ],
)
def test_an_editor_marks_what_the_models_refuse(wrong: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**yaml.safe_load(PIPELINE), **wrong}, json_schema(PipelineSpec))


def test_the_reference_describes_every_key() -> None:
    empty = [line for line in generated()["conf/README.md"].splitlines() if line.endswith("|  |")]
    assert empty == []
