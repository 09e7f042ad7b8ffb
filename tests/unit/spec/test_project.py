from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.conf_project import ENVIRONMENT, ConfProject
from tidemill.errors import SpecError, UsageError
from tidemill.spec.project import describe, load_environment
from tidemill.spec.project_folder import Project, find_project


def test_a_project_is_found_upwards_from_the_working_directory(
    project: ConfProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder / "spark_apps" / "transforms")
    assert find_project(variables={}).folder == project.folder.resolve()


def test_a_named_project_wins_over_the_variable(project: ConfProject, tmp_path: Path) -> None:
    named = find_project(str(project.folder), {"TIDEMILL_PROJECT": str(tmp_path / "other")})
    assert named.folder == project.folder.resolve()
    assert find_project(variables={"TIDEMILL_PROJECT": str(project.folder)}) == named


@pytest.mark.parametrize("folder", ["missing", "\x00", "a" * 5_000])
def test_a_folder_that_is_no_project_is_wrong_usage(tmp_path: Path, folder: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_project(str(tmp_path / folder), {})
    assert caught.value.error_id == "TIDE-USE-001"


def test_an_unknown_pipeline_suggests_the_near_one(project: ConfProject) -> None:
    error = project.refusal("order")
    assert error.error_id == "TIDE-SPEC-011"
    assert error.facts["known"] == "orders"
    assert error.fix == "did you mean orders?"


@pytest.mark.parametrize("name", ["loca", "../local", "LOCAL", "a" * 5_000, "\x00", "missing.yaml"])
def test_an_unknown_environment_lists_the_known_ones(project: ConfProject, name: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_environment(Project(project.folder), name, {})
    assert caught.value.error_id == "TIDE-SPEC-012"
    assert caught.value.facts["known"] == "local"


def test_an_environment_may_be_a_file_anywhere(project: ConfProject, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.yaml"
    file.write_text(ENVIRONMENT)
    assert load_environment(Project(project.folder), str(file), {}).name == "elsewhere"


def test_a_relative_root_belongs_to_the_project_and_a_uri_to_itself(project: ConfProject) -> None:
    assert project.load().layout.root == str(project.folder.resolve() / ".data")
    project.write("conf/environments/local.yaml", "root: abfss://c@a.dfs.core.windows.net/x/")
    assert project.load().layout.table("bronze/x") == "abfss://c@a.dfs.core.windows.net/x/tables/bronze/x"


def test_a_misnamed_file_stops_no_other_pipeline(project: ConfProject) -> None:
    names = ["Orders.yaml", "orders copy.yaml", "orders.yml", "a" * 41 + ".yaml"]
    for name in [*names, ".orders.yaml.swp.yaml", "notes.md"]:
        project.write(f"conf/pipelines/{name}", "x")
    found = Project(project.folder)
    assert found.pipeline_names() == ["orders"]
    assert [file.name for file in found.misnamed_files()] == sorted(names)


def test_an_unknown_size_lists_the_known_ones(project: ConfProject) -> None:
    project.replace("trigger: 5 seconds", "size: huge")
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-014"
    assert error.facts["known"] == "small"


def test_a_kafka_pipeline_needs_brokers(project: ConfProject) -> None:
    project.write("conf/environments/local.yaml", "root: .data")
    assert project.refusal().error_id == "TIDE-SPEC-013"


def test_a_missing_schema_file_suggests_the_near_one(project: ConfProject) -> None:
    project.replace("order.json", "ordr.json")
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-015"
    assert error.facts["key"] == "payload.json.schema"
    assert error.fix == "did you mean order.json?"


def test_the_digest_tells_declarations_apart_and_nothing_else(project: ConfProject) -> None:
    first = project.resolve().digest
    project.replace("owner: tests\nsource:", "# a comment\nowner:   'tests'\n\nsource:")
    assert project.resolve().digest == first
    project.replace("10 minutes", "11 minutes")
    assert project.resolve().digest != first


def test_a_description_reads_back_as_the_same_declaration(project: ConfProject) -> None:
    import json

    pipeline = project.resolve()
    project.write("conf/pipelines/again.yaml", json.dumps(describe(pipeline)))
    assert project.resolve("again").spec == pipeline.spec


@pytest.mark.parametrize(
    ("sink", "writer", "reason"),
    [
        ("{table: bronze/x}", "arrow", "a plain append"),
        ("{table: bronze/x, mode: merge, key: [id]}", "spark", "mode merge"),
        ("{table: bronze/x, mode: replace}", "spark", "mode replace"),
        ("{table: bronze/x, cluster_by: [id]}", "spark", "cluster_by"),
        ("{table: bronze/x, partition_by: [id]}", "spark", "partition_by"),
        ("{table: bronze/x, options: {optimizeWrite: true}}", "spark", "options"),
        ("{table: bronze/x, writer: spark}", "spark", "named in the pipeline file"),
    ],
)
def test_the_writer_is_chosen_by_what_the_table_needs(
    project: ConfProject, sink: str, writer: str, reason: str
) -> None:
    project.replace("{table: bronze/orders}", sink)
    [found] = project.resolve().spec.delta_sinks
    assert found.writer_and_reason[0] == writer
    assert found.writer_and_reason[1].startswith(reason)


@pytest.mark.parametrize(
    ("mode", "output"), [("append", "append"), ("merge, key: [id]", "update"), ("replace", "complete")]
)
def test_the_output_mode_follows_the_table(project: ConfProject, mode: str, output: str) -> None:
    project.replace("{table: bronze/orders}", f"{{table: bronze/orders, mode: {mode}}}")
    assert project.resolve().spec.output_mode == output


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_the_console_may_ask_for_an_output_mode_where_no_table_does(project: ConfProject, mode: str) -> None:
    project.replace("delta: {table: bronze/orders}", f"console: {{mode: {mode}}}")
    assert project.resolve().spec.output_mode == mode
    project.replace("delta: {table: bronze/orders}", "console: {}")
    assert project.resolve().spec.output_mode == "append"


def test_a_console_beside_a_table_follows_it_or_agrees_with_it(project: ConfProject) -> None:
    table = "delta: {table: bronze/orders, mode: replace}"
    for console in ("{}", "{mode: complete}"):
        project.replace("delta: {table: bronze/orders}", f"{table}\n  - console: {console}")
        assert project.resolve().spec.output_mode == "complete"
    project.replace("delta: {table: bronze/orders}", f"{table}\n  - console: {{mode: update}}")
    error = project.refusal()
    assert error.error_id == "TIDE-MODE-020"
    assert error.facts["found"] == "bronze/orders (replace) needs complete, console needs update"


def test_a_batch_may_take_the_grace_period_but_for_the_drivers_way_out(project: ConfProject) -> None:
    assert project.load().spec.drain_time == timedelta(seconds=90)
    project.write("conf/environments/local.yaml", ENVIRONMENT + "grace_period: 10 minutes\n")
    spec = project.load().spec
    assert (spec.grace_period, spec.drain_time) == (timedelta(minutes=10), timedelta(minutes=9, seconds=30))


@pytest.mark.parametrize("period", ["59 seconds", "0 seconds", "61 minutes", "soon"])
def test_a_grace_period_that_no_batch_or_no_node_could_keep_is_refused(
    project: ConfProject, period: str
) -> None:
    project.write("conf/environments/local.yaml", ENVIRONMENT + f"grace_period: {period}\n")
    with pytest.raises(SpecError) as caught:
        project.load()
    assert caught.value.facts["key"] == "grace_period"


def test_how_long_a_stream_may_make_no_progress_is_its_own_or_the_environments_to_say(
    project: ConfProject,
) -> None:
    assert project.resolve().progress_within == timedelta(minutes=10)
    usual = project.resolve().definition_digest
    project.replace("  trigger: 5 seconds\n", "  trigger: 1 hour\n")
    assert project.resolve().progress_within == timedelta(hours=3)
    project.replace("  trigger: 5 seconds\n", "  trigger: 5 seconds\n  progress_within: 2 hours\n")
    assert project.resolve().progress_within == timedelta(hours=2)
    # A driver does nothing else for it, so none need be restarted.
    assert project.resolve().definition_digest == usual
    project.replace("  trigger: 5 seconds\n", "  trigger: 5 seconds\n  progress_within: 5 seconds\n")
    assert "at least 1 minute" in str(project.refusal())
