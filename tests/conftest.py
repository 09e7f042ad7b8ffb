"""Marks every test with its tier, the name of its folder: so `-m kafka` and `make test-kafka` agree.

The session and the lake are made by the first test that asks for them; a run of the unit tests never
loads Spark. `make test` runs in three processes (pytest-xdist), because tests wait a lot; two of them have
a session. A file's tests stay together.

Java compiles for a start of seconds and not for a run of hours, and takes Spark's classes from the archive
that `make test` has made: a driver starts in two thirds of the time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.store_fixtures import (
    add_stores_option,
    azurite_server,
    choose_stores,
    has_no_store_to_run_on,
    placed_store,
    s3_store_server,
    store_place,
    store_root,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer  # type: ignore[import-untyped]  # xdist has no types
    from xdist.scheduler import Scheduling  # type: ignore[import-untyped]

    from tests.support.lake import Lake

# The session and the broker are the kit's that users have for tests of their pipelines.
pytest_plugins = ["tidemill.testing.plugin"]

# A slow example on a busy machine is no failure: no test asserts a time.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

__all__ = ["azurite_server", "placed_store", "s3_store_server", "store_place", "store_root"]

TESTS = Path(__file__).parent

# Runs first: at the end, one process would run it while the others are idle.
LONGEST_FILE = TESTS / "kafka/test_verb_matrix.py"

# Options of each JVM that Spark starts. Without the archive, Java loads the classes itself without a message.
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    # With only the first compiler, Java's code cache is 48 MB. A session of many tests needs more, and Java
    # would repeatedly discard code and compile it again.
    "-XX:ReservedCodeCacheSize=256m",
    "-XX:+UseSerialGC",
    # Most objects are dead after one test's query; fewer collections than with a third of the heap.
    "-Xmn384m",
    # On a virtual machine whose memory is busy, a miss costs up to ten times as much in small pages.
    "-XX:+UseTransparentHugePages",
    f"-XX:SharedArchiveFile={TESTS.parent / '.cache/spark.jsa'}",
)
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(JAVA_OPTIONS))
# Options of the Java process that builds each JVM's command line. They halve its time.
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_configure(config: pytest.Config) -> None:
    from tests.support.progress import Progress

    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config))


def pytest_addoption(parser: pytest.Parser) -> None:
    add_stores_option(parser)
    parser.addoption(
        "--rounds", type=int, help="how many random faults a test in tests/e2e or tests/soak goes through"
    )
    parser.addoption("--minutes", type=float, help="how long a soak by the clock lasts")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """The order of `make test`; None is xdist's own."""
    from tests.support.scheduling import FewSessions

    return FewSessions(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_stores(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        tier = item.path.relative_to(TESTS).parts[0]
        item.add_marker(tier)
    items.sort(key=lambda item: item.path != LONGEST_FILE)
    left_out = [item for item in items if is_only_for_soak(config, item) or has_no_store_to_run_on(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def is_only_for_soak(config: pytest.Config, item: pytest.Item) -> bool:
    """Cases of other tiers marked `soak` repeat a promise at more places; they run with `-m soak`."""
    marked = item.get_closest_marker("soak") is not None
    return marked and "soak" not in item.path.parts and "soak" not in config.getoption("markexpr")


@pytest.fixture(scope="session")
def spark(tidemill_spark: SparkSession) -> SparkSession:
    """Return one session for the test run: a driver's session, without compiled plans."""
    return tidemill_spark


@pytest.fixture(autouse=True)
def session_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """Remove a pipeline's settings from the session, so that they do not affect the next test."""
    yield
    if "tidemill_spark" in request.fixturenames:
        from tidemill.sources.stream_names import CONF_OF_NAMES

        for name in CONF_OF_NAMES:
            request.getfixturevalue("tidemill_spark").conf.unset(name)


@pytest.fixture(autouse=True)
def secrets_as_found() -> Iterator[None]:
    """Restore the known secrets after a test, so that they mask nothing in the texts of the next test."""
    from tidemill.spec import secret_mask

    known = set(secret_mask._read)
    yield
    secret_mask._read.intersection_update(known)


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    """Return a project folder and storage of one test, without Kafka."""
    from tests.support.lake import Lake

    return Lake(tmp_path / "lake", spark)
