"""A sink's transform, checked in its file: it exists, and it is part of the code digest."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject
from tidemill.ledger.code import code_of
from tidemill.ledger.shape import shape_of

SHAPE = "def latest(orders):\n    return orders\n"


def with_sink_transform(project: ConfProject, reference: str = "shape:latest") -> ConfProject:
    project.write("spark_apps/transforms/shape.py", SHAPE)
    project.replace("sinks:", f'sinks:\n  - console: {{transform: "{reference}"}}')
    return project


def test_its_file_and_function_are_looked_for_as_a_pipelines_are(project: ConfProject) -> None:
    assert with_sink_transform(project).resolve().spec.sink_transforms == {
        "sinks[0].console.transform": "shape:latest"
    }
    missing = with_sink_transform(project, "shap:latest").refusal()
    assert (missing.error_id, missing.facts["key"]) == ("TIDE-SPEC-015", "sinks[0].console.transform")
    assert missing.fix == "did you mean shape.py?"
    unknown = with_sink_transform(project, "shape:newest").refusal()
    assert (unknown.error_id, unknown.facts["key"]) == ("TIDE-SPEC-019", "sinks[0].console.transform")


@pytest.mark.parametrize("reference", ["shape", "../shape:latest", "shape:latest()"])
def test_another_form_of_reference_is_refused(project: ConfProject, reference: str) -> None:
    assert with_sink_transform(project, reference).refusal().error_id == "TIDE-SPEC-003"


def test_a_change_of_its_file_is_a_change_of_code(project: ConfProject) -> None:
    before = with_sink_transform(project).resolve()
    code, definition = code_of(before), before.definition_digest
    project.write("spark_apps/transforms/shape.py", SHAPE + "\n# changed\n")
    after = project.resolve()
    assert (code_of(after).digest, code_of(after).rules) != (code.digest, code.rules)
    assert after.definition_digest != definition
    assert shape_of(after.spec).sinks["console"].transform == "shape:latest"


def test_a_file_that_holds_both_transforms_counts_once(project: ConfProject) -> None:
    with_sink_transform(project, "orders:transform").write(
        "conf/pipelines/other.yaml",
        (project.folder / "conf/pipelines/orders.yaml").read_text() + "\ntransform: orders:transform\n",
    )
    files = project.resolve("other").named_files
    assert [file.name for file in files] == ["order.json", "orders.py"]
