"""The real SDK against a hub's AMQP peer on this machine."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.support.certificates import make_certificates
from tests.support.declared import declared
from tests.support.hub_facts_peer import HubFactsPeer, PeerPartition
from tests.support.token_endpoint import CLIENT_SECRET, SigningKey, TokenEndpoint
from tidemill.checkpoint.doctor.hub import HubFacts, HubPartition
from tidemill.errors import SpecError, TidemillError, UnavailableError
from tidemill.sources.hub_facts import ask_hub
from tidemill.spec.project import Pipeline

CAME = datetime(2026, 11, 5, 9, 30, tzinfo=UTC)


@pytest.fixture
def peer() -> Iterator[HubFactsPeer]:
    partitions = {"0": PeerPartition(5, 99, CAME), "1": PeerPartition(), "2": PeerPartition(8, 7, CAME)}
    with HubFactsPeer("readings", partitions).listening() as peer:
        yield peer


def reading(folder: Path, hub: str = "readings", **keys: Any) -> Pipeline:
    auth = {"connection_string": "hub-connection"}
    source = {"namespace": "plant-north", "hub": hub, "auth": auth, **keys}
    return declared(folder, source={"eventhubs": source})


def refused(pipeline: Pipeline) -> TidemillError:
    with pytest.raises(TidemillError) as refusal:
        ask_hub(pipeline)
    assert "canary" not in str(refusal.value) + repr(refusal.value.__context__)
    return refusal.value


def test_a_hub_tells_its_age_its_partitions_and_their_ends(
    tmp_path: Path, peer: HubFactsPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", peer.connection_string)

    facts = ask_hub(reading(tmp_path))

    assert facts == HubFacts(
        peer.created,
        {"0": HubPartition(5, 100, CAME), "1": HubPartition(0, 0, None), "2": HubPartition(8, 8, CAME)},
    )
    # A token for this hub, not the key that signs it.
    assert peer.tokens
    assert all("SharedAccessSignature" in token and "canary" not in token for token in peer.tokens)


def test_a_wrong_hub_key_or_string_is_told_as_what_it_is(
    tmp_path: Path, peer: HubFactsPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", peer.connection_string)
    assert refused(reading(tmp_path, "others")).error_id == "TIDE-HUB-012"
    peer.refuses = True
    wrong_key = refused(reading(tmp_path))
    assert isinstance(wrong_key, SpecError)
    assert (wrong_key.error_id, wrong_key.facts["secret"]) == ("TIDE-HUB-011", "hub-connection")
    for text in ("canary", "Endpoint=sb://x;SharedAccessKeyName=canary", "Endpoint=;SharedAccessKey=canary"):
        monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", text)
        assert refused(reading(tmp_path)).error_id == "TIDE-HUB-011"


def test_a_hub_is_asked_with_a_token_for_the_service(
    tmp_path: Path, peer: HubFactsPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = make_certificates(tmp_path)
    peer.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    peer.tls.load_cert_chain(certificates.certificate, certificates.key)
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CLIENT", CLIENT_SECRET)
    address = {"amqp_endpoint": f"127.0.0.1:{peer.port}", "ca_file": str(certificates.authority)}
    with TokenEndpoint(SigningKey()).listening() as entra:
        pipeline = reading(tmp_path, auth=entra.client_secret(), **address)

        assert ask_hub(pipeline).created == peer.created

        (token,) = entra.tokens
        assert set(peer.tokens) == {token}
        assert jwt.decode(token, options={"verify_signature": False})["aud"] == "https://eventhubs.azure.net"
        peer.refuses = True
        error = refused(pipeline)
        assert (error.error_id, error.facts["login"], error.facts["secret"]) == (
            "TIDE-HUB-011",
            "client_secret",
            "hub-client",
        )
        monkeypatch.setenv("TIDEMILL_SECRET_HUB_CLIENT", "canary-that-is-wrong")
        assert refused(pipeline).error_id == "TIDE-HUB-030"


def test_a_hub_that_does_not_answer_is_told_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", HubFactsPeer(port=port).connection_string)
    away = refused(reading(tmp_path))
    assert isinstance(away, UnavailableError)
    assert away.error_id == "TIDE-HUB-010"
