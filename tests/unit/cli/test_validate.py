from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import PIPELINE, ConfProject
from tidemill.spec.nesting import MAX_LEVELS

REPOSITORY = Path(__file__).parents[3]

FILES_PIPELINE = """
description: Readings from files.
owner: tests
source:
  files: {path: landing, format: json, schema: "device string, at timestamp"}
event_time: {column: at, watermark: 1 hour}
sinks:
  - delta: {table: bronze/readings, cluster_by: [device]}
"""


def test_a_right_project_ends_with_0(tidemill: CommandLine) -> None:
    assert tidemill("validate") == 0, tidemill.err
    assert tidemill.out.splitlines() == ["ok     orders", "1 right, 0 wrong, environment local"]


@pytest.mark.parametrize("environment", ["local", "azure"])
def test_this_repository_is_right(tidemill: CommandLine, environment: str) -> None:
    tidemill.folder = REPOSITORY
    assert tidemill("--env", environment, "validate") == 0, tidemill.err


def test_every_wrong_pipeline_is_told_and_the_right_ones_too(
    tidemill: CommandLine, project: ConfProject
) -> None:
    project.write("conf/pipelines/bad_key.yaml", PIPELINE.replace("owner", "ower"))
    project.write("conf/pipelines/bad_yaml.yaml", "a: [")
    assert tidemill("validate") == 2
    assert tidemill.out.splitlines() == [
        "wrong  bad_key",
        "wrong  bad_yaml",
        "ok     orders",
        "1 right, 2 wrong, environment local",
    ]
    assert "TIDE-SPEC-003" in tidemill.err
    assert "TIDE-SPEC-002" in tidemill.err


def test_only_named_pipelines_are_checked(tidemill: CommandLine, project: ConfProject) -> None:
    project.write("conf/pipelines/bad.yaml", "a: [")
    assert tidemill("validate", "orders") == 0
    assert tidemill("validate", "bad") == 2
    assert tidemill("validate", "oders") == 2
    assert "did you mean orders?" in tidemill.err


def findings(tidemill: CommandLine) -> dict[str, str]:
    """Return error ids of what is wrong, by name."""
    import json

    assert tidemill("validate", "--json") == 2
    found = json.loads(tidemill.out)["findings"]
    return {finding["name"]: finding["error"]["id"] for finding in found if not finding["ok"]}


def test_json_names_error_facts_and_fix(tidemill: CommandLine, project: ConfProject) -> None:
    project.replace("owner", "ower")
    assert findings(tidemill) == {"orders": "TIDE-SPEC-003"}
    assert '"near_key": "owner"' in tidemill.out


def test_misnamed_files_are_findings(tidemill: CommandLine, project: ConfProject) -> None:
    project.write("conf/pipelines/Orders-2.yaml", PIPELINE)
    project.write("conf/pipelines/more.yml", PIPELINE)
    assert findings(tidemill) == {"Orders-2.yaml": "TIDE-SPEC-029", "more.yml": "TIDE-SPEC-029"}


def test_a_circle_between_pipelines_is_a_finding(tidemill: CommandLine, project: ConfProject) -> None:
    circle = (
        "description: x\nowner: x\n"
        "source: {delta: {table: bronze/%s}}\nsinks: [{delta: {table: bronze/%s}}]\n"
    )
    project.write("conf/pipelines/one.yaml", circle % ("a", "b"))
    project.write("conf/pipelines/two.yaml", circle % ("b", "a"))
    assert findings(tidemill) == {"(all pipelines)": "TIDE-SPEC-027"}


@pytest.mark.parametrize(
    ("schema", "error_id"),
    [
        ("{", "TIDE-SPEC-028"),
        ("[]", "TIDE-SPEC-028"),
        ("[" * 100_000, "TIDE-SPEC-028"),
        ('{"type": "object", "properties": {"id": {"type": "string", "maxLenght": 5}}}', "TIDE-SPEC-020"),
        ('{"type": "array"}', "TIDE-SPEC-021"),
        ('{"type": "object", "properties": {"id": {"type": "string"}}, "required": ["di"]}', "TIDE-SPEC-023"),
    ],
)
def test_a_wrong_payload_schema_is_a_finding(
    tidemill: CommandLine, project: ConfProject, schema: str, error_id: str
) -> None:
    project.write("conf/schemas/order.json", schema)
    assert findings(tidemill) == {"orders": error_id}


@pytest.mark.parametrize(
    ("column", "says"),
    [("att", "did you mean at?"), ("id", "not a timestamp"), ("kafka_value", "no such column")],
)
def test_the_event_time_column_must_be_a_timestamp_of_the_payload(
    tidemill: CommandLine, project: ConfProject, column: str, says: str
) -> None:
    project.replace("{column: at,", f"{{column: {column},")
    assert tidemill("validate") == 2
    assert "TIDE-SPEC-026" in tidemill.err
    assert says in tidemill.err


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("cdc: {sequence_by: kafka_ofset}", "did you mean kafka_offset?"),
        ("cdc: {sequence_by: at, except_columns: [op]}", "no such column"),
    ],
)
def test_the_columns_of_a_change_feed_must_be_the_payloads(
    tidemill: CommandLine, project: ConfProject, keys: str, says: str
) -> None:
    sink = "{table: bronze/orders, mode: scd2, key: [id], partition_by: [is_current], " + keys + "}"
    project.replace("{table: bronze/orders}", sink)
    assert tidemill("validate") == 2
    assert "TIDE-SPEC-026" in tidemill.err
    assert says in tidemill.err


NAMED_FILES = """
description: Readings with names as spreadsheets have them.
owner: tests
source:
  files:
    path: landing
    format: json
    schema: >-
      `people.id` string, k string, `seq.no` long, `at.t` timestamp, `Größe` int, `un it` int,
      s struct<x: int>
event_time: {column: at.t, watermark: 1 hour}
sinks:
  - files: {path: out/t, format: parquet, partition_by: [k]}
  - delta: {table: silver/t}
"""


@pytest.mark.parametrize(
    "sink",
    [
        "delta: {table: silver/t, mode: scd1, key: [people.id, größe], cdc: {sequence_by: seq.no}}",
        "delta: {table: silver/t, mode: scd2, key: [k], cdc: {sequence_by: k, except_columns: [un it]}}",
        "delta: {table: silver/t, partition_by: [people.id]}",
        "delta: {table: silver/t, cluster_by: [people.id, s.x], time: at.t}",
        "files: {path: out/u, format: parquet, partition_by: [un it, people.id]}",
        "kafka: {topic: t, key: un it}",
    ],
)
def test_a_column_is_found_by_its_name_whatever_is_in_it(
    tidemill: CommandLine, project: ConfProject, sink: str
) -> None:
    project.write("conf/pipelines/orders.yaml", NAMED_FILES.replace("delta: {table: silver/t}", sink))
    assert tidemill("validate") == 0, tidemill.err


@pytest.mark.parametrize(
    ("change", "key", "near"),
    [
        (("table: silver/t", "table: silver/t, time: at.z"), "sinks[1].delta.time", "at.t"),
        (("partition_by: [k]", "partition_by: [un.it]"), "sinks[0].files.partition_by", "un it"),
        (("column: at.t", "column: AT.T"), "event_time.column", "at.t"),
        (
            ("delta: {table: silver/t}", "kafka: {topic: t, key: people_id}"),
            "sinks[1].kafka.key",
            "people.id",
        ),
        (("table: silver/t", "table: silver/t, partition_by: [s.x]"), "sinks[1].delta.partition_by", ""),
    ],
)
def test_a_column_that_is_not_there_is_refused_with_its_key_and_the_nearest_name(
    tidemill: CommandLine, project: ConfProject, change: tuple[str, str], key: str, near: str
) -> None:
    project.write("conf/pipelines/orders.yaml", NAMED_FILES.replace(*change))
    assert tidemill("validate") == 2
    assert "TIDE-SPEC-026" in tidemill.err
    assert f"key={key}" in tidemill.err
    assert (f"did you mean {near}?" if near else "correct the pipeline file") in tidemill.err


def test_the_broker_s_own_time_may_be_the_event_time(tidemill: CommandLine, project: ConfProject) -> None:
    project.replace("{column: at,", "{column: kafka_timestamp,")
    assert tidemill("validate") == 0, tidemill.err


@pytest.mark.parametrize(
    ("old", "new", "error_id"),
    [
        ("column: at", "column: device", "TIDE-SPEC-026"),
        ("column: at", "column: when", "TIDE-SPEC-026"),
        ("[device]", "[devise]", "TIDE-SPEC-026"),
        ("device string", "device", "TIDE-SPEC-003"),
        ("device string", "device strin", "TIDE-SPEC-003"),
        ("device string", "device map<int, string>", "TIDE-SPEC-031"),
    ],
)
def test_columns_of_files_are_those_of_their_ddl(
    tidemill: CommandLine, project: ConfProject, old: str, new: str, error_id: str
) -> None:
    project.write("conf/pipelines/readings.yaml", FILES_PIPELINE)
    assert tidemill("validate") == 0, tidemill.err
    file = project.write("conf/pipelines/readings.yaml", FILES_PIPELINE.replace(old, new))
    assert findings(tidemill) == {"readings": error_id}
    assert tidemill("validate") == 2
    assert f"file={file}" in tidemill.err


def test_a_transform_may_make_the_columns_that_sinks_name(
    tidemill: CommandLine, project: ConfProject
) -> None:
    project.write(
        "conf/pipelines/readings.yaml",
        FILES_PIPELINE.replace("[device]", "[made_up]") + "transform: orders:transform\n",
    )
    assert tidemill("validate") == 0, tidemill.err


def test_a_wrong_environment_is_told_once(tidemill: CommandLine, project: ConfProject) -> None:
    project.write("conf/environments/local.yaml", "rot: .data")
    assert tidemill("validate") == 2
    assert tidemill.err.count("TIDE-SPEC-003") == 1
    assert "did you mean `root`?" in tidemill.err


def test_validate_makes_nothing(tidemill: CommandLine, project: ConfProject) -> None:
    before = sorted(project.folder.rglob("*"))
    assert tidemill("validate") == 0, tidemill.err
    assert sorted(project.folder.rglob("*")) == before


def test_secrets_for_a_pipeline_that_is_not_declared_are_told(
    tidemill: CommandLine, project: ConfProject
) -> None:
    project.write(
        "conf/environments/plant.yaml",
        """
        runtime: kubernetes
        root: s3://lake
        kafka: {bootstrap_servers: "broker:9092"}
        kubernetes:
          namespace: plant
          image: docker.io/tidemill/spark:0.1.0
          pipelines: {order: {secrets: [hub]}}
        """,
    )
    assert tidemill("--env", "plant", "validate") == 2
    assert "TIDE-SPEC-046" in tidemill.err
    assert "kubernetes.pipelines.order" in tidemill.err
    assert "did you mean orders?" in tidemill.err


def test_a_pipeline_of_another_environment_is_no_mistake_of_this_one(
    tidemill: CommandLine, project: ConfProject
) -> None:
    project.write(
        "conf/environments/local.yaml",
        "runtime: kubernetes\nroot: abfss://lake@account.dfs.core.windows.net/\n"
        'kubernetes: {namespace: streams, image: "registry.local/tidemill:1"}\n'
        'kafka: {bootstrap_servers: "b:1"}\n',
    )
    project.write(
        "conf/pipelines/trial.yaml",
        "description: d\nowner: o\nsource: {socket: {port: 9999}}\nsinks: [{console: {}}]\n",
    )
    assert tidemill("validate") == 0, tidemill.err
    assert re.search(r"^other  trial: .*TIDE-MODE-001", tidemill.out, re.MULTILINE)
    assert "1 right, 0 wrong, 1 for other environments" in tidemill.out
    found = {finding["name"]: finding["elsewhere"] for finding in tidemill.json("validate")["findings"]}
    assert found == {"orders": False, "trial": True}
    # Asked for by name, it is.
    assert tidemill("validate", "trial") == 2


def deep(levels: int) -> str:
    kind = "bigint"
    for level in range(levels):
        kind = f"struct<a{level}: {kind}>"
    return kind


def test_a_column_that_no_reader_could_open_is_refused(tidemill: CommandLine, project: ConfProject) -> None:
    schema = '"device string, at timestamp"'
    fits = f"'device string, at timestamp, d {deep(MAX_LEVELS)}'"
    project.write("conf/pipelines/readings.yaml", FILES_PIPELINE.replace(schema, fits))
    assert tidemill("validate") == 0, tidemill.err
    too_deep = f"'device string, at timestamp, d {deep(MAX_LEVELS + 1)}'"
    project.write("conf/pipelines/readings.yaml", FILES_PIPELINE.replace(schema, too_deep))
    assert findings(tidemill) == {"readings": "TIDE-SPEC-072"}
    assert tidemill("validate") == 2
    assert f"column=d levels={MAX_LEVELS + 1} max_levels={MAX_LEVELS}" in tidemill.err


def test_a_schema_of_many_columns_is_right_and_the_limit_is_named(
    tidemill: CommandLine, project: ConfProject
) -> None:
    columns = ", ".join(f"measured_value_{number} double" for number in range(2000))
    wide = FILES_PIPELINE.replace("at timestamp", f"at timestamp, {columns}")
    project.write("conf/pipelines/readings.yaml", wide)
    assert tidemill("validate") == 0, tidemill.err
    too_long = FILES_PIPELINE.replace("at timestamp", f"at timestamp, {columns * 4}")
    project.write("conf/pipelines/readings.yaml", too_long)
    assert tidemill("validate") == 2
    assert "source.files.schema" in tidemill.err
    assert "200000 characters" in tidemill.err
