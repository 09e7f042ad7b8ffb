"""One release for the run, on the cluster that KUBECONFIG names; each test leaves it healthy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.cluster_report import report_on
from tests.support.platform import BRONZE, TABLES, WINDOWS, Platform, platform_in
from tests.support.release import Release

NAMESPACE = "tidemill-e2e"

# Events that are there before the streams are, so that the first batch has something to do.
FIRST_EVENTS = 2_000

# Maximum duration of one test in seconds: an install, or a few restarts of drivers. Every bound of these
# tests is several times what two quiet cores need, so the tests also pass on a machine that is four times
# slower.
TIMEOUT_SECONDS = 1200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Attach the state of the namespace to a failure report."""
    report = yield
    if report.failed and "platform" in getattr(item, "fixturenames", []):
        report.sections.append(("cluster", report_on(Release(Cluster(NAMESPACE)))))
    return report


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """Installed on nothing, fed, and streaming. Both namespaces go in the end."""
    cluster = Cluster(NAMESPACE)
    release = Release(cluster)
    release.forget()
    cluster.create_namespace()
    try:
        begun = time.monotonic()
        release.install()
        with platform_in(cluster, release) as platform:
            platform.until_broker()
            platform.feed(FIRST_EVENTS)
            platform.until_batch(WINDOWS, after=-1)
            platform.facts["first batch committed"] = time.monotonic() - begun
            release.wait_until_ready()
            platform.facts["all pods ready"] = time.monotonic() - begun
            platform.until_healthy(WINDOWS)
            platform.until_healthy(BRONZE)
            yield platform
    except AssertionError as error:
        # Write the report now, because everything is deleted before pytest makes its report.
        error.add_note(report_on(release))
        raise
    finally:
        release.forget()


@pytest.fixture(autouse=True)
def _no_stream_is_left_stopped(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start stopped streams after a failed test, so that other tests do not fail as well."""
    yield
    if "platform" in request.fixturenames:
        platform: Platform = request.getfixturevalue("platform")
        for pipeline in TABLES:
            if platform.agent.ask("holds", pipeline=pipeline):
                platform.tidemill("start", pipeline, "--reason", "e2e")
