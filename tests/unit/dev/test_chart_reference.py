"""The chart's generated files say what values.yaml and the models say."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from tidemill.dev.chart_reference import (
    CHART,
    Value,
    chart_files,
    differing_chart_files,
    documented_values,
    with_environment,
    write_chart_files,
)
from tidemill.errors import UsageError
from tidemill.spec.reference import GENERATE_COMMAND

REPOSITORY = Path(__file__).parents[3]

VALUES = """\
# A remark about the file.

broker:
  # Why it is here.
  # -- How many,
  # at most | at least.
  many: 3
parts:
  # -- A map that is one value.
  limits: {memory: 1Gi}
  inner:
    # -- Deep down.
    deep: []
"""


def test_the_generated_files_of_this_repository_are_up_to_date() -> None:
    assert differing_chart_files(REPOSITORY) == [], f"run: {GENERATE_COMMAND}"


def test_a_project_without_the_chart_has_none(tmp_path: Path) -> None:
    assert chart_files(tmp_path) == {}


def test_a_changed_file_is_found(tmp_path: Path) -> None:
    (tmp_path / CHART).mkdir(parents=True)
    for name in ("values.yaml", "values.template.schema.json"):
        (tmp_path / CHART / name).write_bytes((REPOSITORY / CHART / name).read_bytes())
    written = write_chart_files(tmp_path)
    assert differing_chart_files(tmp_path) == []
    written[0].write_text("")
    assert differing_chart_files(tmp_path) == [written[0]]


def test_a_comment_with_the_mark_documents_the_key_below_it() -> None:
    text = VALUES.replace("  # Why it is here.\n", "")
    assert list(documented_values(text)) == [
        Value("broker.many", "3", "How many, at most \\| at least."),
        Value("parts.limits", '{"memory": "1Gi"}', "A map that is one value."),
        Value("parts.inner.deep", "[]", "Deep down."),
    ]


def test_a_key_without_the_mark_is_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        list(documented_values(VALUES))
    assert caught.value.error_id == "TIDE-DEV-040"
    assert caught.value.facts["key"] == "broker.many"


def test_the_chart_takes_the_names_and_the_runtime_that_its_drivers_take() -> None:
    name = {"$ref": "#/$defs/environmentName"}
    schema = with_environment({"properties": {"name": name, "file": {"$ref": "#/$defs/environment"}}})
    jsonschema.validate({"name": "azure", "file": {"root": "s3://bucket/lake"}}, schema)
    for wrong in ({"name": "1azure"}, {"file": {"root": "s3://bucket/lake", "runtime": "local"}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_an_environment_may_leave_to_the_chart_what_the_chart_knows() -> None:
    schema = with_environment({"$ref": "#/$defs/environment"})
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"root": "s3://bucket/lake", "kubernetes": {"image_pull_policy": "Always"}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {"root": "s3://bucket/lake", "kubernetes": {"gracious_period": "5 minutes"}}, schema
        )
