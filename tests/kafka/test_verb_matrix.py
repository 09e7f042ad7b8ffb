"""Every checkpoint operation, for every kind of table and state of the stream, ends with a running pipeline.

One pipeline writes each kind of appended table and one each kind of merged table, so an operation acts on
several at once. They run twice, and each test works on a copy of their folder. Spark's part of an operation
runs in the session of the tests.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tests.support.pipelines_on_disk import Killed, killed_at
from tidemill.control import spark_part, upgrade_check
from tidemill.dev.topics import create_topic
from tidemill.engine.planned_version import planned_version
from tidemill.engine.repartition import repartition_with_spark
from tidemill.engine.table_restore import restore_with_spark
from tidemill.errors import GateRefusedError
from tidemill.ledger.table_restore import TableRestore
from tidemill.spec.project import Pipeline

# An operation with its arguments, and the function that makes them for a world.
Words = tuple[str, ...]
Verb = Callable[["World"], Words]
Copy = Callable[["World", str], "World"]

BY = ("--reason", "a test", "--apply")

# The key of merged tables is the partition, so each batch replaces their rows.
TRANSFORM = """
from pyspark.sql import functions as F

def transform(records):
    named = records.withColumn("name", F.col("kafka_value").cast("string"))
    once = named.dropDuplicatesWithinWatermark(["name"])
    return once.select(F.col("kafka_partition").alias("part"), "name")
"""
BY_PART = {"mode": "merge", "key": ["part"]}
TABLES: dict[str, dict[str, dict[str, Any]]] = {
    "appended": {
        "arrow": {"writer": "arrow"},
        "arrow_vectors": {"writer": "arrow"},
        "spark_vectors": {"writer": "spark"},
        "partitioned": {"partition_by": ["part"]},
        "clustered": {"cluster_by": ["name"]},
    },
    "merged": {
        "merged_clustered": {**BY_PART, "cluster_by": ["name"]},
        "merged_vectors": BY_PART,
    },
}


@dataclass
class World:
    """A project folder whose pipelines have run twice; a backup was made after the second run.

    Args:
        lake: The project.
        topic: Topic that the pipelines read.
        run: Its command line.
        name: The pipeline that a test is about.
        suffix: Ends the names of the pipeline and its tables.
    """

    lake: Lake
    topic: str
    run: CommandLine
    name: str = ""
    suffix: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.name}{self.suffix}"

    @property
    def pipeline(self) -> LakePipeline:
        return LakePipeline(self.lake, self.full_name)

    def names(self) -> dict[str, list[str]]:
        """Return the rows of each table by their names, as Spark reads them."""
        root, read = self.lake.root / "tables/silver", self.lake.spark.read.format("delta")
        found: dict[str, list[str]] = {table: [] for table in TABLES[self.name]}
        rows = [
            read.load(f"{root}/{table}{self.suffix}").select(F.lit(table).alias("of"), "name")
            for table in found
        ]
        # One query for all of them takes a fraction of the time.
        for row in reduce(DataFrame.unionByName, rows).collect():
            found[row["of"]].append(row["name"])
        return {table: sorted(names) for table, names in found.items()}

    def expected(self, *batches: str) -> dict[str, list[str]]:
        """Return the rows that the tables must have after these batches, each once."""
        stay = batches if self.name == "appended" else batches[-1:]
        rows = [f"{batch}{part}" for batch in stay for part in (0, 1)]
        return {name: sorted(rows) for name in TABLES[self.name]}

    @property
    def newest_batch(self) -> int:
        return max(int(path.name) for path in self.pipeline.checkpoint.glob("commits/[0-9]*"))

    def declare(self, **run: Any) -> None:
        self.lake.pipeline(
            self.full_name,
            # One record of each partition, because no batch may have two rows of one key.
            source={"kafka": {"topic": self.topic, "max_offsets_per_batch": 2}},
            event_time={"column": "kafka_timestamp", "watermark": "60 minutes"},
            transform=self.lake.transform(self.full_name, TRANSFORM),
            sinks=[
                {"delta": {"table": f"silver/{table}{self.suffix}", **sink}}
                for table, sink in TABLES[self.name].items()
            ],
            run={"mode": "incremental", "shuffle_partitions": 2, **run},
        )

    def ask(self, verb: str, *words: str) -> int:
        """Ask for an operation to be carried out; returns the exit code."""
        return self.run("checkpoint", verb, self.name, *words, *BY)

    def verb(self, *words: str) -> None:
        """Carry out an operation that must end well."""
        assert self.ask(*words) == 0, self.run.err

    def refusal(self) -> GateRefusedError:
        with pytest.raises(GateRefusedError) as refused:
            self.pipeline.run_incremental()
        return refused.value


def send(kafka: Kafka, topic: str, batch: str) -> None:
    kafka.send(topic, [Record(f"{batch}{part}".encode(), None, part) for part in (0, 1)])


def has_run_twice(folder: Path, spark: SparkSession, kafka: Kafka) -> World:
    lake, topic = Lake(folder, spark, kafka.bootstrap_servers), kafka.new_topic(partitions=2)
    world = World(lake, topic, CommandLine(folder, lambda: SimpleNamespace(out="", err="")))
    worlds = [replace(world, name=name) for name in TABLES]
    for one in worlds:
        one.declare()
    for name in (name for tables in TABLES.values() for name in tables if name.endswith("vectors")):
        table = DeltaTable.create(spark).location(f"{lake.root}/tables/silver/{name}")
        table = table.addColumn("part", "INT").addColumn("name", "STRING")
        table.property("delta.enableDeletionVectors", "true").execute()
    for batch in ("a", "b"):
        send(kafka, topic, batch)
        for one in worlds:
            one.pipeline.run_incremental()
    for one in worlds:
        one.verb("backup")
        assert one.names() == one.expected("a", "b")
    return world


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, kafka: Kafka) -> World:
    """Send one more record to each partition of the topic."""
    world = has_run_twice(tmp_path_factory.mktemp("kept") / "lake", spark, kafka)
    send(kafka, world.topic, "c")
    return world


@pytest.fixture
def copy_of(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Copy:
    """Copy a world into the test's folder. The Spark parts of operations run in the session of the tests."""

    def copy(world: World, name: str) -> World:
        shutil.copytree(world.lake.folder, tmp_path / "lake")
        (tmp_path / "lake/data/control.json").unlink(missing_ok=True)
        lake = Lake(tmp_path / "lake", world.lake.spark, world.lake.bootstrap_servers)
        for module in (spark_part, upgrade_check):
            monkeypatch.setattr(module, "run_part", in_session(lake.spark))
        return World(lake, world.topic, CommandLine(lake.folder, capsys.readouterr), name)

    return copy


def in_session(spark: SparkSession) -> Callable[..., Any]:
    def run_part(_: object, pipeline: Pipeline, module: str, arguments: Sequence[str]) -> Any:
        match module:
            case "table_restore":
                return restore_with_spark(spark, TableRestore.from_text(arguments[1]))
            case "repartition":
                return repartition_with_spark(spark, arguments[1], int(arguments[3]))
            case "planned_version":
                return planned_version(spark, pipeline).model_dump(mode="json")
        raise AssertionError(module)

    return run_part


def has_batches(_: World) -> None:
    pass


def torn_newest_batch(world: World) -> None:
    """Damage the offsets of the newest batch, which is in all tables, as a fenced driver might."""
    tear(world.pipeline.checkpoint / f"offsets/{world.newest_batch}")


def torn_planned_batch(world: World) -> None:
    """Damage the offsets of the newest batch, which no table has, as after a power failure."""
    newest = world.newest_batch
    offsets = world.pipeline.checkpoint / "offsets"
    shutil.copy(offsets / str(newest), offsets / str(newest + 1))
    tear(offsets / str(newest + 1))


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:30])
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def reset_where_it_stands(world: World) -> Words:
    return "reset", "--from", json.dumps({world.topic: {"0": 2, "1": 2}})


def rewind_to_the_first_run(_: World) -> Words:
    return "rewind", "--to", "0"


def restore_the_backup(world: World) -> Words:
    return "restore", world.run.json("checkpoint", "restore", world.name)[-1]["backup"]


def repair(_: World) -> Words:
    return ("repair",)


def repartition(world: World) -> Words:
    world.declare(shuffle_partitions=3)
    return "repartition", "3"


def acknowledge(world: World) -> Words:
    """Change a comment in the code, and return the arguments of `acknowledge`."""
    world.lake.transform(world.name, f"{TRANSFORM}# Nothing else.\n")
    assert world.refusal().error_id == "TIDE-CKPT-093"
    return ("acknowledge",)


STATES = (has_batches, torn_newest_batch, torn_planned_batch)
CELLS = [
    ("appended", reset_where_it_stands, has_batches),
    ("appended", rewind_to_the_first_run, torn_newest_batch),
    ("appended", restore_the_backup, torn_planned_batch),
    ("appended", repair, torn_newest_batch),
    ("appended", acknowledge, has_batches),
    ("merged", reset_where_it_stands, has_batches),
]
MORE_CELLS = [
    *(("appended", reset_where_it_stands, state) for state in STATES[1:]),
    *(("appended", rewind_to_the_first_run, state) for state in (has_batches, torn_planned_batch)),
    *(("appended", restore_the_backup, state) for state in STATES[:2]),
    *((name, repartition, has_batches) for name in TABLES),
    ("merged", rewind_to_the_first_run, torn_newest_batch),
    ("merged", restore_the_backup, torn_planned_batch),
]


def cells(seen_each_time: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return what CI has the time for, and the others for `-m soak`."""
    return [
        *(pytest.param(*cell, id=" ".join(map(named, cell))) for cell in seen_each_time),
        *(pytest.param(*cell, id=" ".join(map(named, cell)), marks=pytest.mark.soak) for cell in others),
    ]


def named(part: object) -> str:
    return part if isinstance(part, str) else str(getattr(part, "__name__", part))


@pytest.mark.parametrize(("name", "verb", "state"), cells(CELLS, MORE_CELLS))
def test_after_a_verb_the_pipeline_goes_on_and_each_record_is_in_each_table_once(
    kept: World, copy_of: Copy, name: str, verb: Verb, state: Callable[[World], None]
) -> None:
    world = copy_of(kept, name)
    state(world)
    if state is not has_batches:
        assert world.refusal().error_id == "TIDE-CKPT-007"
    world.verb(*verb(world))
    world.pipeline.run_incremental()
    assert world.names() == world.expected("a", "b", "c")


def test_a_repair_that_the_ledger_cannot_help_names_the_rewind_that_does(kept: World, copy_of: Copy) -> None:
    world = copy_of(kept, "appended")
    torn_planned_batch(world)
    assert world.ask("repair") == 1
    assert world.run.err.startswith("TIDE-CKPT-007")
    world.verb(*advised(world.run.err, world.name))
    world.pipeline.run_incremental()
    assert world.names() == world.expected("a", "b", "c")


GIVEN_UP = [
    ("appended", reset_where_it_stands, "table silver/clustered"),
    ("merged", rewind_to_the_first_run, "table silver/merged_clustered"),
]
MORE_GIVEN_UP = [
    ("appended", reset_where_it_stands, "write checkpoint"),
    ("appended", reset_where_it_stands, "table silver/arrow"),
    ("appended", rewind_to_the_first_run, "table silver/arrow"),
    ("appended", rewind_to_the_first_run, "table silver/clustered"),
    ("appended", rewind_to_the_first_run, "switch generation"),
    ("merged", reset_where_it_stands, "switch generation"),
]


@pytest.mark.parametrize(("name", "verb", "step"), cells(GIVEN_UP, MORE_GIVEN_UP))
def test_a_verb_that_is_given_up_leaves_a_pipeline_that_the_gates_fixes_bring_back(
    kept: World, copy_of: Copy, name: str, verb: Verb, step: str
) -> None:
    world = copy_of(kept, name)
    words = verb(world)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tidemill.cli.procedure_run._tell", killed_at(step))
        with pytest.raises(Killed):
            world.ask(*words)
    (hold,) = world.run.json("checkpoint", "release", name)
    world.verb("release", hold["id"], "--force")
    for _ in TABLES[name]:
        if world.run("checkpoint", "gate", name, "--json") == 0:
            break
        findings = json.loads(world.run.out)["findings"]
        world.verb(*advised(next(one["fix"] for one in findings if one["severity"] == "error"), name))
    world.pipeline.run_incremental()
    assert world.names() == world.expected("a", "b", "c")


@pytest.mark.parametrize("name", cells([("appended",)], [("merged",)]))
def test_a_fork_and_its_original_go_on_from_the_same_rows(kept: World, copy_of: Copy, name: str) -> None:
    original = copy_of(kept, name)
    fork = replace(original, suffix="_fork")
    fork.declare()
    original.verb("fork", fork.full_name)
    assert fork.names() == original.names() == original.expected("a", "b")
    for world in (fork, original):
        world.pipeline.run_incremental()
        assert world.names() == world.expected("a", "b", "c")


def advised(fix: str, name: str) -> list[str]:
    """Return the words of the first operation that a fix names."""
    found = re.search(rf"tidemill (?:--\w+ \S+ )*checkpoint (\w+) {name}((?: --\w+ \S+)*)", fix)
    assert found is not None, fix
    return [found[1], *found[2].replace(",", " ").split()]


@pytest.mark.parametrize("name", cells([("appended",)], [("merged",)]))
def test_a_pipeline_that_never_ran_has_nothing_to_go_back_to_and_starts(
    kept: World, copy_of: Copy, name: str
) -> None:
    world = copy_of(kept, name)
    shutil.rmtree(world.lake.root / "tables")
    shutil.rmtree(world.lake.root / "state")
    verbs = {"TIDE-CKPT-041": ("reset", "--from", "earliest"), "TIDE-CKPT-076": ("rewind", "--to", "0")}
    for refusal, words in verbs.items():
        assert world.ask(*words) == 2
        assert world.run.err.startswith(refusal)
    world.pipeline.run_incremental()
    assert world.names() == world.expected("a", "b", "c")


@pytest.fixture(scope="module")
def recreated(kept: World, kafka: Kafka) -> World:
    """Return the same world with a recreated topic that has other records, for the last tests."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_topics([kept.topic])[kept.topic].result()
    eventually(lambda: kept.topic not in admin.list_topics(timeout=10).topics, "the topic is gone")
    create_topic(kafka.bootstrap_servers, kept.topic, 2)
    send(kafka, kept.topic, "d")
    return kept


@pytest.mark.parametrize(
    ("name", "verb"),
    cells(
        [("appended", rewind_to_the_first_run)],
        [(name, verb) for name in TABLES for verb in (rewind_to_the_first_run, restore_the_backup)][1:],
    ),
)
def test_a_verb_that_needs_what_a_recreated_topic_lacks_changes_nothing_and_a_reset_helps(
    recreated: World, copy_of: Copy, name: str, verb: Verb
) -> None:
    world = copy_of(recreated, name)
    assert world.ask(*verb(world)) == 1
    assert world.run.err.startswith("TIDE-CKPT-075")
    assert world.names() == world.expected("a", "b")
    world.verb("reset", "--from", "earliest")
    world.pipeline.run_incremental()
    assert world.names() == world.expected("a", "b", "d")
