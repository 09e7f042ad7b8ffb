"""The stage of the examples: a copy of the project with its own storage and broker, in one Spark session."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from deltalake import write_deltalake
from pyarrow import Table
from pyspark.sql import SparkSession

from examples.proofs.example import REPOSITORY
from tests.support.kafka import Record, read, send
from tests.support.lake import Lake, LakePipeline
from tests.support.running_stream import RunningStream, running_stream
from tests.support.transform_corpus import findings_of
from tidemill.cli.app import main
from tidemill.cli.pipeline_check import check_pipeline
from tidemill.dev.topics import create_topic
from tidemill.errors import SpecError, TidemillError
from tidemill.sources.stream_names import CONF_OF_NAMES
from tidemill.spec.project import load_environment
from tidemill.spec.project_folder import Project

EXAMPLES = Path(__file__).parents[1]

# Where the examples' environment finds models.
REGISTRY = "http://localhost:5000"


class Stage:
    """One project with the pipelines of this folder, and one with the wrong ones.

    Args:
        folder: An empty folder.
        spark: The session of the run.
        bootstrap_servers: The broker.
    """

    def __init__(self, folder: Path, spark: SparkSession, bootstrap_servers: str) -> None:
        self.spark = spark
        self.broker = bootstrap_servers
        # The brokers of an environment may be several addresses.
        port = bootstrap_servers.rpartition(":")[2]
        servers = f"{bootstrap_servers},localhost:{port}"
        self.lake = _copy(
            EXAMPLES, Lake(folder / "right", spark, servers, {"model_registry": {"url": REGISTRY}})
        )
        self.wrong = _copy(EXAMPLES / "wrong", Lake(folder / "wrong", spark, servers))
        self._topics: set[str] = set()
        self._drivers: dict[str, subprocess.Popen[str]] = {}

    def pipeline(self, name: str) -> LakePipeline:
        """A pipeline of this folder, or `repository/NAME`."""
        own = name.removeprefix(REPOSITORY)
        if own != name and not (self.lake.folder / f"conf/pipelines/{own}.yaml").exists():
            self.lake.copy_pipeline(own)
        return LakePipeline(self.lake, own)

    def run(self, name: str) -> None:
        """Run a pipeline to the end of its source, as `tidemill run NAME --mode incremental` does."""
        self.pipeline(name).run_incremental()

    def live(self, name: str) -> contextlib.AbstractContextManager[RunningStream]:
        """Run it as a stream for the length of a `with` block, as `tidemill run NAME --mode stream` does."""
        return running_stream(self.pipeline(name))

    def ended_batches(self, name: str) -> int:
        """Return the number of completed batches in the checkpoint of a pipeline."""
        return len(list((self.pipeline(name).checkpoint / "commits").glob("[0-9]*")))

    def verdict(self, name: str) -> tuple[str, str]:
        """Return whether a wrong declaration is refused or only reported, and the error's id.

        The answer comes from `tidemill validate`, or else from `tidemill plan --spark`.
        """
        try:
            resolved = check_pipeline(load_environment(Project(self.wrong.folder), "local", {}), name)
        except SpecError as error:
            return "refused", error.error_id
        for stream in resolved.spec.streams.values():
            if stream.source.files is not None:
                (self.wrong.root / stream.source.files.path).mkdir(parents=True, exist_ok=True)
        try:
            findings = findings_of(LakePipeline(self.wrong, name))
        except TidemillError as error:
            return "refused", error.error_id
        assert findings, f"nothing is found in {name}"
        return "reported" if findings[0].rule.warns else "refused", findings[0].error.error_id

    def land(self, path: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Put a file of JSON lines below the storage root."""
        self.lake.land_rows(path, rows)

    def table(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append to a Delta table, as another program does."""
        write_deltalake(str(self.lake.root / "tables" / table), Table.from_pylist(list(rows)), mode="append")

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Some columns of a table's rows; older files may lack one."""
        return [tuple(row.get(column) for column in columns) for row in self.lake.rows(table)]

    def exported(self, path: str, *columns: str, kind: str = "parquet") -> list[tuple[Any, ...]]:
        """Some columns of the rows of a folder, by Spark's log of it."""
        frame = self.spark.read.format(kind).load(str(self.lake.root / path))
        return [tuple(row) for row in frame.select(*columns).collect()]

    def in_memory(self, table: str) -> list[tuple[Any, ...]]:
        """Rows of a table in the driver's memory, by SQL; none before there is one."""
        if not self.spark.catalog.tableExists(table):
            return []
        return [tuple(row) for row in self.spark.sql(f"SELECT * FROM {table}").collect()]  # noqa: S608

    def topic(self, name: str, partitions: int = 1) -> bool:
        """Make a topic that keeps old records; whether it is new."""
        is_new = name not in self._topics
        self._topics.add(name)
        # Records of the examples say that they arrived in 2024.
        create_topic(self.broker, name, partitions, {"retention.ms": "-1"})
        return is_new

    def send(self, topic: str, rows: Iterable[Mapping[str, Any] | bytes], partition: int = 0) -> None:
        """Send rows as JSON, or bytes as they are."""
        values = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        send(self.broker, topic, [Record(value, partition=partition) for value in values])

    def send_at(self, topic: str, rows: Iterable[tuple[Mapping[str, Any], int]]) -> None:
        """Send rows as JSON, each with the moment of its arrival in milliseconds."""
        producer = Producer({"bootstrap.servers": self.broker, "enable.idempotence": True, "log_level": 0})
        for row, milliseconds in rows:
            producer.produce(topic, json.dumps(row).encode(), partition=0, timestamp=milliseconds)
        assert producer.flush(20) == 0, "the broker did not take all records"

    def received(self, topic: str) -> list[tuple[str | None, dict[str, Any]]]:
        """Keys and JSON values of all records of a topic."""
        records = read(self.broker, topic)
        return [(record.key and record.key.decode(), json.loads(record.value or b"{}")) for record in records]

    def listen_on(self, name: str, port: int) -> None:
        """Let a pipeline with a socket read from another port."""
        self.pipeline(name)
        file = self.lake.folder / f"conf/pipelines/{name.removeprefix(REPOSITORY)}.yaml"
        file.write_text(file.read_text().replace("9999", str(port)))

    def models_from(self, name: str, url: str) -> None:
        """Let a pipeline find its models in another registry."""
        self.pipeline(name)
        file = self.lake.folder / "conf/environments/local.yaml"
        file.write_text(file.read_text().replace(REGISTRY, url))

    def forget_settings(self) -> None:
        """Remove the last pipeline's settings from the session, because a driver runs only one pipeline."""
        for name in CONF_OF_NAMES:
            self.spark.conf.unset(name)

    def active_queries(self) -> list[str]:
        """Names of the queries that run in this session."""
        return [query.name or "" for query in self.spark.streams.active]

    def tidemill(self, *arguments: str) -> tuple[int, str]:
        """Run the command line in the project; exit code and output."""
        with printed() as output, contextlib.redirect_stderr(io.StringIO()):
            code = main(["--project", str(self.lake.folder), "--env", "local", *arguments])
        return code, output.getvalue()

    def begin_driver(self, name: str) -> None:
        """Run a stream in a separate driver, by `tidemill start NAME`, which waits for a batch."""
        if name not in self._drivers:
            arguments = ["--project", str(self.lake.folder), "--env", "local", "start", name]
            self._drivers[name] = subprocess.Popen(
                [sys.executable, "-m", "tidemill.cli.app", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def driver(self, name: str) -> None:
        """The same, and wait for that."""
        self.begin_driver(name)
        start = self._drivers[name]
        said = start.communicate()[0] if start.returncode is None else ""
        assert start.returncode == 0, f"{name} does not start: {said}"

    def close(self) -> None:
        """End all drivers that were started."""
        for start in self._drivers.values():
            if start.returncode is None:
                start.communicate()
        if self._drivers:
            self.tidemill("stop", "--all")


@contextlib.contextmanager
def printed() -> Iterator[io.StringIO]:
    """Capture standard output, which is the console of a driver."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        yield output


def _copy(project: Path, lake: Lake) -> Lake:
    """Fill a lake's project folder with pipelines, schemas and transforms; its environment is its own."""
    for part in ("conf/pipelines", "conf/schemas", "spark_apps/transforms"):
        shutil.copytree(project / part, lake.folder / part, dirs_exist_ok=True)
    return lake
