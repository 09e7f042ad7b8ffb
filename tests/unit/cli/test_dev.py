from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tests.support.hub_facts_peer import HubFactsPeer, PeerPartition


def test_generated_files_are_written_and_then_up_to_date(tidemill: CommandLine, project: ConfProject) -> None:
    assert tidemill("dev", "generate", "--check") == 1
    assert "run: tidemill dev generate" in tidemill.err
    assert tidemill("dev", "generate") == 0
    assert tidemill("dev", "generate", "--check") == 0
    (project.folder / "conf/README.md").write_text("by hand")
    assert tidemill("dev", "generate", "--check") == 1
    assert (project.folder / "conf/README.md").read_text() == "by hand"


def test_a_first_event_time_must_be_readable(tidemill: CommandLine) -> None:
    assert tidemill("dev", "produce", "--start", "soon") == 2
    assert "ISO 8601" in tidemill.err


@pytest.mark.parametrize("wrong", ["events", "events:", "events:0", ":3", "events:many"])
def test_a_topic_is_given_with_its_partitions(tidemill: CommandLine, wrong: str) -> None:
    assert tidemill("dev", "topics", "fine:1", wrong) == 2
    assert "NAME:PARTITIONS" in tidemill.err


def test_the_command_finds_the_secret_of_the_environment(
    tidemill: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("dev", "produce", "readings", "--count", "20", "--rate", "0")
    assert tidemill(*words, "--to", "eventhubs") == 2
    assert tidemill(*words, "--secret", "hub-connection") == 2
    assert tidemill(*words, "--to", "eventhubs", "--secret", "hub-connection") == 2
    assert "TIDE-SPEC-030" in tidemill.err
    with HubFactsPeer("readings", {"0": PeerPartition()}).listening() as peer:
        monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", peer.connection_string)
        assert tidemill(*words, "--to", "eventhubs", "--secret", "hub-connection") == 0
        assert "20 events in" in tidemill.err
        assert sum(len(bodies) for _, bodies in peer.batches) == 20
