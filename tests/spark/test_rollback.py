"""A new version that fails at its first batch, with real drivers: the one before makes that very batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.eventually import eventually
from tests.support.lake import Lake
from tests.support.stream_requests import AT_ONCE
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.visit import Outcome
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.spec.project import load_environment
from tidemill.spec.project_folder import Project

# Each driver and each Spark plan of a version takes 20 s on two busy cores.
TIMEOUT_SECONDS = 300.0

SHORT = """
from pyspark.sql import functions as F

def transform(rows):
    return rows.where(F.length("name") < 10)
"""
FAILS = SHORT.replace('F.length("name") < 10', 'F.assert_true(F.length("name") < 0).isNull()')


@pytest.fixture
def plane(lake: Lake) -> Iterator[ControlPlane]:
    lake.configure(on_change="restart")
    plane = open_control_plane(load_environment(Project(lake.folder), "local", {}))
    yield plane
    if (driver := plane.running("names")) is not None:
        plane.runtime.kill(driver)


def land(lake: Lake, number: int) -> None:
    rows = [{"name": name} for name in ("ann", "bob", "much too long a name")]
    lake.land_rows(f"landing/{number}.json", rows)


# Four drivers fail before the version is given up, each after Spark's start.
@pytest.mark.soak
@pytest.mark.timeout(1_200)
def test_the_version_before_makes_the_batch_at_which_the_new_one_fails(
    lake: Lake, plane: ControlPlane
) -> None:
    lake.transform("names", SHORT)
    lake.pipeline(
        "names",
        source={"files": {"path": "landing", "format": "json", "schema": "name string"}},
        transform="names:transform",
        sinks=[{"delta": {"table": "silver/names"}}],
        run={"mode": "stream", "trigger": "1 second"},
    )

    def until(action: str) -> Outcome:
        def done() -> Outcome | None:
            (outcome,) = reconcile_streams(plane, AT_ONCE)
            return outcome if outcome.decision.action == action else None

        found = eventually(done, f"a visit that does: {action}", TIMEOUT_SECONDS)
        assert found is not None
        return found

    def counts() -> dict[str, int]:
        if not (lake.root / f"tables/silver/names/_delta_log/{0:020}.json").exists():
            return {}
        return Counter(row["name"] for row in lake.rows("silver/names"))

    land(lake, 1)
    until("start")
    eventually(lambda: counts() == {"ann": 1, "bob": 1}, "the first batch", TIMEOUT_SECONDS)
    good = until("leave").driver
    assert good is not None
    # The new version plans its first batch, and fails at it.
    lake.transform("names", FAILS)
    until("stop")
    land(lake, 2)
    given_up = until("return")
    assert "given up" in given_up.decision.reason
    again = until("start").driver
    assert again is not None
    assert again.digest == good.digest
    eventually(lambda: counts() == {"ann": 2, "bob": 2}, "the batch is made", TIMEOUT_SECONDS)
    land(lake, 3)
    eventually(lambda: counts() == {"ann": 3, "bob": 3}, "the stream goes on", TIMEOUT_SECONDS)
    batches = [commit.entry.batch_id for commit in lake.ledger("silver/names") if commit.entry]
    assert batches == [2, 1, 0]
    assert until("refused").decision.runbook == "rollback"
