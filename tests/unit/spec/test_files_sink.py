"""Valid declarations of a files sink."""

from __future__ import annotations

import pytest

from tests.support.conf_project import PIPELINE, ConfProject
from tests.support.declared import declared


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        ("{path: 'exports/*', format: json}", "a pattern is for reading"),
        ("{path: ../exports, format: json}", "stays below its folder"),
        ("{path: exports, format: text}", "json"),
        ("{path: exports, format: csv, partition_by: [day, Day]}", "twice"),
        ("{path: exports, format: csv, options: {retention: 1h}}", "a file that was written stays"),
        ("{path: exports, format: csv}\n  - console: {mode: complete}", "files exports needs append"),
        ("{path: exports, format: csv}\n  - delta: {table: gold/x, mode: replace}", "needs complete"),
    ],
)
def test_what_a_files_sink_cannot_promise_is_refused(project: ConfProject, sink: str, says: str) -> None:
    project.replace("delta: {table: bronze/orders}", f"files: {sink}")
    assert says in str(project.refusal())


@pytest.mark.parametrize(
    "path", ["tables/bronze/x", "./state", "audit", "quarantine//x", "late/x", "backfills/x", "."]
)
def test_tidemills_own_folders_are_refused(project: ConfProject, path: str) -> None:
    for location in (path, f"file://{project.folder.resolve()}/.data/{path}"):
        project.replace("delta: {table: bronze/orders}", f"files: {{path: '{location}', format: json}}")
        error = project.refusal()
        assert (error.error_id, error.facts["path"]) == ("TIDE-SPEC-047", location)


@pytest.mark.parametrize(
    "other", ["exports/a", "exports//a/", "./exports/a", "exports/a/b", "file://{root}/exports/a"]
)
def test_a_folder_has_one_sink_however_it_is_spelled(project: ConfProject, other: str) -> None:
    path = other.format(root=f"{project.folder.resolve()}/.data")
    sinks = f"files: {{path: exports/a, format: csv}}\n  - files: {{path: '{path}', format: csv}}"
    project.replace("delta: {table: bronze/orders}", sinks)
    assert project.refusal().error_id == "TIDE-SPEC-048"


@pytest.mark.parametrize("read", ["exports", "exports/a", "./exports/a/", "exports/*", "'*'"])
def test_a_pipeline_does_not_read_the_files_that_it_writes(project: ConfProject, read: str) -> None:
    source = "files: {path: PATH, format: text}".replace("PATH", read)
    text = PIPELINE.replace("kafka:\n    topic: orders", source)
    for key in (
        "payload:\n  json: {schema: order.json}\n",
        "event_time: {column: at, watermark: 10 minutes}\n",
    ):
        text = text.replace(key, "")
    project.write(
        "conf/pipelines/orders.yaml",
        text.replace("delta: {table: bronze/orders}", "files: {path: exports/a, format: csv}"),
    )
    assert project.refusal().error_id == "TIDE-SPEC-048"


def test_a_folder_of_its_own_is_known_to_plan_and_graph(project: ConfProject) -> None:
    project.replace("delta: {table: bronze/orders}", "files: {path: exports/tables, format: json}")
    pipeline = project.resolve()
    assert pipeline.spec.output_mode == "append"
    assert pipeline.layout.folder("exports/tables") == f"{pipeline.layout.root}/exports/tables"
    elsewhere = "abfss://c@a.dfs.core.windows.net/exports"
    assert declared(project.folder).layout.folder(elsewhere) == elsewhere
