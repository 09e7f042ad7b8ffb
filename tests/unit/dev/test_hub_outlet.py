"""`tidemill dev produce --to eventhubs`: the real SDK sends to a hub's AMQP peer on this machine."""

from __future__ import annotations

import itertools
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.hub_facts_peer import HubFactsPeer, PeerPartition
from tidemill.dev.hub_outlet import BATCHED_EVENTS, HubTarget
from tidemill.dev.iot_events import IotSettings, iot_events
from tidemill.dev.produce import Pace, ProduceReport, produce
from tidemill.errors import SpecError, TidemillError, UnavailableError, UsageError

MIXED = IotSettings(
    start=datetime(2026, 1, 1, tzinfo=UTC),
    seed=7,
    interval=timedelta(seconds=1),
    late_rate=0.1,
    duplicate_rate=0.05,
    broken_rate=0.05,
)


@pytest.fixture
def peer() -> Iterator[HubFactsPeer]:
    with HubFactsPeer("readings", {"0": PeerPartition()}).listening() as peer:
        yield peer


def target(peer: HubFactsPeer, hub: str = "readings") -> HubTarget:
    return HubTarget(hub, "hub-connection", peer.connection_string)


def by_device(batches: list[tuple[str | None, list[bytes]]]) -> dict[str | None, list[bytes]]:
    """Return the events of each partition key, in the order in which they came."""
    found: dict[str | None, list[bytes]] = defaultdict(list)
    for key, bodies in batches:
        found[key] += bodies
    return dict(found)


def expected(count: int) -> dict[str | None, list[bytes]]:
    events = itertools.islice(iot_events(MIXED), count)
    return by_device([(event.key.decode(), [event.value or b""]) for event in events])


def test_the_hub_holds_the_events_of_each_device_in_order_under_its_key(peer: HubFactsPeer) -> None:
    count = BATCHED_EVENTS + 200
    report = produce(target(peer), MIXED, Pace(count=count))
    assert by_device(peer.batches) == expected(count)
    assert len(peer.batches) < count / 4
    kinds = Counter(event.kind for event in itertools.islice(iot_events(MIXED), count))
    assert {kind: number for kind, number in report.sent.items() if number} == dict(kinds)
    assert all("canary" not in token for token in peer.tokens)


def test_at_a_slow_pace_nothing_waits_for_a_full_batch(peer: HubFactsPeer) -> None:
    stop = threading.Event()

    def stop_once_some_arrived(_report: ProduceReport) -> None:
        if peer.batches:
            stop.set()

    report = produce(target(peer), MIXED, Pace(events_per_second=100), stop, stop_once_some_arrived)

    assert 0 < report.total < BATCHED_EVENTS
    assert by_device(peer.batches) == expected(report.total)


def test_a_hub_that_takes_no_more_ends_the_run_with_what_it_has(peer: HubFactsPeer) -> None:
    peer.takes = 3
    failed = refused(target(peer), Pace(count=300))
    assert isinstance(failed, UnavailableError)
    assert failed.error_id == "TIDE-DEV-011"
    assert failed.facts["acknowledged"] == sum(len(bodies) for _, bodies in peer.batches)
    assert int(str(failed.facts["not_acknowledged"])) > 0


def test_a_full_batch_is_sent_and_an_event_too_large_for_any_ends_the_run(peer: HubFactsPeer) -> None:
    peer.largest = 2_000
    produce(target(peer), IotSettings(start=MIXED.start, devices=1, hot_devices=0), Pace(count=100))
    sizes = [len(bodies) for _, bodies in peer.batches]
    assert sum(sizes) == 100
    assert 1 < max(sizes) < 20
    peer.largest = 100
    failed = refused(target(peer), Pace(count=1))
    assert (failed.error_id, failed.facts["acknowledged"]) == ("TIDE-DEV-011", 0)


def test_what_is_wrong_is_told_before_anything_is_sent(peer: HubFactsPeer) -> None:
    missing = refused(target(peer, "others"))
    assert (type(missing), missing.error_id, missing.facts["hub"]) == (UsageError, "TIDE-DEV-007", "others")
    no_string = refused(HubTarget("readings", "hub-connection", "Endpoint=;SharedAccessKey=canary"))
    peer.refuses = True
    wrong_key = refused(target(peer))
    for error in (no_string, wrong_key):
        assert (type(error), error.error_id) == (SpecError, "TIDE-HUB-011")
        assert error.facts["secret"] == "hub-connection"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    away = refused(target(HubFactsPeer(port=port)))
    assert (type(away), away.error_id) == (UnavailableError, "TIDE-DEV-008")
    assert peer.batches == []


def refused(where: HubTarget, pace: Pace | None = None) -> TidemillError:
    with pytest.raises(TidemillError) as refusal:
        produce(where, MIXED, pace or Pace(count=1))
    assert "canary" not in str(refusal.value) + repr(refusal.value.__context__) + repr(where)
    return refusal.value
