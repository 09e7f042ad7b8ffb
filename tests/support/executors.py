"""Drivers with real executors and no cluster: Spark's `local-cluster` starts them as processes here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.support.altered_driver import altered, altered_driver_command
from tests.support.driver_process import Drivers

# Two executors of one core each. Tasks are more than cores, so that each executor runs several.
SETTINGS = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.default.parallelism": "4",
}

# A transform that passes all rows on. The task that first meets the row named in VICTIM ends its executor
# as the out-of-memory killer would; the file CRIME keeps the next attempt from doing the same.
KILLING_TRANSFORM = '''
import os
import signal

CRIME, VICTIM = {crime!r}, {victim!r}


def executor_of(worker):
    """A Python worker's parent is Spark's Python daemon; the daemon's is the executor."""
    stat = open(f"/proc/{{worker}}/stat").read()
    daemon = int(stat.rpartition(")")[2].split()[1])
    return int(open(f"/proc/{{daemon}}/stat").read().rpartition(")")[2].split()[1])


def pass_on(batches):
    for batch in batches:
        if VICTIM in batch.column("id").to_pylist() and not os.path.exists(CRIME):
            open(CRIME, "x").close()
            os.kill(executor_of(os.getpid()), signal.SIGKILL)
        yield batch


def transform(rows):
    passed = rows.mapInArrow(pass_on, rows.schema)
    return {result}
'''


@contextmanager
def drivers_with_executors(project: Path, further: Mapping[str, str] | None = None) -> Iterator[Drivers]:
    """Drivers of a project, each with two executors; `further` are variables of both."""
    home = str(_spark_home(project / "spark-home"))
    variables = altered(project, SETTINGS, SPARK_HOME=home, **(further or {}))
    drivers = Drivers(project, variables, altered_driver_command)
    try:
        yield drivers
    finally:
        drivers.end_all()


def _spark_home(folder: Path) -> Path:
    """Return the installed Spark under another path, below which executors get their working folders."""
    folder.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (folder / part.name).symlink_to(part)
    return folder
