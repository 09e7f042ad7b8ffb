"""Commands about an event hub, which is queried over AMQP on this machine."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tests.support.hub_facts_peer import HubFactsPeer, PeerPartition
from tidemill.control.hygiene import look_after
from tidemill.control.plane import open_control_plane

READINGS = """
description: A hub.
owner: tests
source:
  eventhubs: {namespace: plant-north, hub: readings, auth: {connection_string: hub-connection},
              endpoint: "127.0.0.1:1", tier: standard, throughput_units: 3, capture: {path: captured}}
sinks:
  - delta: {table: bronze/readings}
run: {mode: stream, trigger: 5 seconds}
"""


def test_status_plan_and_doctor_show_what_the_hub_says(
    tidemill: CommandLine, project: ConfProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.sources.topic_retention.ANSWER_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("tidemill.sources.offsets.ANSWER_TIMEOUT_SECONDS", 0.2)
    project.write("conf/pipelines/readings.yaml", READINGS)
    partitions = {"0": PeerPartition(0, 9), "1": PeerPartition()}
    with HubFactsPeer(partitions=partitions).listening() as peer:
        monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", peer.connection_string)

        assert tidemill("status", "readings", "--broker") == 0
        assert (
            "hub readings: 2 partitions, 10 events behind; loss of unread events: ok, covered by Capture"
            in tidemill.out.replace("\n", " ")
        )
        assert "TIDE-HUB-021" in tidemill.out
        (hub,) = tidemill.json("plan", "readings", "--broker")["hubs"]
        assert (hub["lag"], hub["partitions"]["0"]["end"], hub["time_to_loss"]["level"]) == (10, 10, "ok")
        found = tidemill.json("checkpoint", "doctor", "--broker")
        assert "TIDE-HUB-021" in [finding["id"] for finding in found["findings"]]
        care = look_after(open_control_plane(project.load(), {}), "readings", "airflow")
        assert "TIDE-HUB-021" in [finding.finding_id for finding in care.findings]
        assert "canary" not in tidemill.out

    assert tidemill("status", "readings", "--broker") == 0
    assert "TIDE-HUB-010" in tidemill.out
    (silent,) = tidemill.json("plan", "readings", "--broker")["hubs"]
    assert [finding["id"] for finding in silent["findings"]] == ["TIDE-HUB-010"]
    assert silent["partitions_needed"].startswith("at least 3, ")
    assert tidemill("status", "--broker") == 2


@pytest.mark.parametrize(
    ("keys", "needs", "findings"),
    [
        ("throughput_units: 3", "at least 3, because one partition takes at most one unit", []),
        ("throughput_units: 1, max_offsets_per_batch: 50000", "at least 1, ", ["TIDE-HUB-022"]),
        ("max_offsets_per_batch: 50000", "at least one for each throughput unit, ", []),
    ],
)
def test_a_plan_advises_on_partitions_and_batches_without_asking_the_hub(
    tidemill: CommandLine, project: ConfProject, keys: str, needs: str, findings: list[str]
) -> None:
    project.write("conf/pipelines/readings.yaml", READINGS.replace("throughput_units: 3", keys))
    (hub,) = tidemill.json("plan", "readings")["hubs"]
    assert hub["partitions_needed"].startswith(needs)
    assert (hub["keeps"], [finding["id"] for finding in hub["findings"]]) == ("1 week", findings)
    assert tidemill.json("plan", "orders")["hubs"] == []
