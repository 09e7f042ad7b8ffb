"""Tokens for a namespace: where they come from, and what is said when none does."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.declared import declared
from tests.support.token_endpoint import (
    CLIENT,
    CLIENT_SECRET,
    FEDERATED_CLIENT,
    NAMESPACE,
    TENANT,
    SigningKey,
    TokenEndpoint,
)
from tidemill.errors import SpecError, TidemillError, UnavailableError
from tidemill.sources import token_login
from tidemill.sources.kafka_clients import KafkaClient, environment_client, kafka_client
from tidemill.sources.web_token import read_token
from tidemill.spec.project import Pipeline


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey()


@pytest.fixture
def entra(key: SigningKey, monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CLIENT", CLIENT_SECRET)
    monkeypatch.setenv("TIDEMILL_SECRET_WRONG", "canary-that-is-wrong")
    with TokenEndpoint(key).listening() as endpoint:
        yield endpoint


@pytest.fixture
def pod(entra: TokenEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file with the proof of the pod's identity."""
    for name, value in entra.pod(tmp_path / "proof").items():
        monkeypatch.setenv(name, value)
    return tmp_path / "proof"


def reading(folder: Path, auth: dict[str, Any], **keys: Any) -> Pipeline:
    source = {"namespace": "plant-north", "hub": "readings", "auth": auth, **keys}
    return declared(folder, source={"eventhubs": source})


def client(folder: Path, auth: dict[str, Any], **keys: Any) -> KafkaClient:
    return kafka_client(reading(folder, auth, **keys))


def refused(client: KafkaClient) -> TidemillError:
    """Return the error for a missing token, and check that it contains no secret of the login."""
    with pytest.raises(TidemillError) as refusal:
        client.librdkafka_config()
    shown = str(refusal.value) + repr(refusal.value.__cause__)
    assert "canary" not in shown
    assert "eyJ" not in shown
    return refusal.value


def token_of(client: KafkaClient) -> tuple[str, float]:
    config = client.librdkafka_config()
    assert (config["security.protocol"], config["sasl.mechanisms"]) == ("SASL_SSL", "OAUTHBEARER")
    found: tuple[str, float] = config["oauth_cb"]("")
    return found


def test_a_client_secret_is_shown_to_the_token_endpoint_once_for_all_clients(
    tmp_path: Path, entra: TokenEndpoint
) -> None:
    reader = client(tmp_path, entra.client_secret())

    token, expires_at = token_of(reader)

    assert entra.issued == {CLIENT: [token]}
    assert expires_at == pytest.approx(time.time() + 3600, abs=30)
    token_of(client(tmp_path, entra.client_secret()))
    assert len(entra.issued[CLIENT]) == 1
    jaas = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f'clientId="{CLIENT}" scope="{NAMESPACE}/.default" '
        f'tokenEndpoint="{entra.address}/{TENANT}/oauth2/v2.0/token" clientSecret="{CLIENT_SECRET}";'
    )
    assert reader.spark_options().items() >= {
        ("kafka.security.protocol", "SASL_SSL"),
        ("kafka.sasl.mechanism", "OAUTHBEARER"),
        ("kafka.sasl.login.callback.handler.class", "io.tidemill.kafka.FreshTokenLogin"),
        ("kafka.sasl.jaas.config", jaas),
    }
    assert CLIENT_SECRET not in repr(reader) + repr(reader.login)


def test_a_new_client_gets_a_new_token_when_the_last_one_is_about_to_end(
    tmp_path: Path, entra: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, expires_at = token_of(client(tmp_path, entra.client_secret()))
    for left, issued in ((0.3, 1), (0.1, 2)):
        moment = expires_at - left * entra.lifetime_seconds
        monkeypatch.setattr(token_login, "time", SimpleNamespace(time=lambda now=moment: now))
        token_of(client(tmp_path, entra.client_secret()))
        assert len(entra.issued[CLIENT]) == issued


def test_a_workload_identity_shows_the_proof_that_stands_in_its_file_now(
    tmp_path: Path, entra: TokenEndpoint, pod: Path
) -> None:
    pod.write_text("canary.of-yesterday")
    assert refused(client(tmp_path, {"workload_identity": {}})).facts["codes"] == "AADSTS70021"
    pod.write_text(f"{entra.proof}\n")

    token, _ = token_of(client(tmp_path, {"workload_identity": {}}))

    assert entra.issued == {FEDERATED_CLIENT: [token]}
    options = client(tmp_path, {"workload_identity": {}}).spark_options()
    assert f'clientId="{FEDERATED_CLIENT}"' in options["kafka.sasl.jaas.config"]
    assert options["kafka.sasl.jaas.config"].endswith(f'assertionFile="{pod}";')
    assert entra.proof not in str(options)


def test_a_pod_without_the_webhooks_variables_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refusal:
        client(tmp_path, {"workload_identity": {}})
    assert refusal.value.error_id == "TIDE-SPEC-033"


def test_a_token_file_is_read_each_time(tmp_path: Path, key: SigningKey) -> None:
    file = tmp_path / "token"
    reader = client(tmp_path, {"token_file": str(file)})
    assert refused(reader).facts == {"file": str(file), "reason": "FileNotFoundError"}
    for content, reason in (("\n", "empty"), ("canary", "not a JSON web token"), ("a.e30.c", "expires")):
        file.write_text(content)
        failure = refused(reader)
        assert (type(failure), failure.error_id) == (UnavailableError, "TIDE-HUB-033")
        assert reason in str(failure.facts["reason"])
    for lifetime in (600, 700):
        token = key.sign(NAMESPACE, lifetime)
        file.write_text(f"{token}\n")
        assert token_of(reader) == (token, read_token(token).expires_at)
    file.write_text(key.sign(NAMESPACE, -1))
    expired = refused(reader)
    assert (type(expired), expired.error_id, expired.facts["file"]) == (
        UnavailableError,
        "TIDE-HUB-034",
        str(file),
    )


@pytest.mark.parametrize(
    ("wrong", "error_id", "codes"),
    [
        ({"secret": "wrong"}, "TIDE-HUB-030", "AADSTS7000215"),
        ({"client": "other"}, "TIDE-HUB-030", "AADSTS7000215"),
        ({"tenant": "other"}, "TIDE-HUB-031", "AADSTS90002"),
    ],
)
def test_what_entra_refuses_is_told_as_what_it_is(
    tmp_path: Path, entra: TokenEndpoint, wrong: dict[str, str], error_id: str, codes: str
) -> None:
    login = entra.client_secret()["client_secret"]
    assert isinstance(login, dict)
    failure = refused(client(tmp_path, {"client_secret": {**login, **wrong}}))
    assert (type(failure), failure.error_id, failure.facts["codes"]) == (SpecError, error_id, codes)
    assert failure.facts["authority"] == entra.address
    assert failure.runbook == "source-unavailable"


@pytest.mark.parametrize(("status", "reason"), [(500, "HTTP 500"), (429, "HTTP 429"), (404, "HTTP 404")])
def test_an_endpoint_that_does_not_work_is_waited_for(
    tmp_path: Path, entra: TokenEndpoint, status: int, reason: str
) -> None:
    entra.broken = status
    failure = refused(client(tmp_path, entra.client_secret()))
    assert (type(failure), failure.error_id) == (UnavailableError, "TIDE-HUB-032")
    assert reason in str(failure.facts["reason"])


def test_an_endpoint_that_cannot_be_reached_or_tells_nonsense_is_waited_for(
    tmp_path: Path, entra: TokenEndpoint
) -> None:
    entra.broken = 200
    failure = refused(client(tmp_path, entra.client_secret()))
    assert (failure.error_id, failure.facts["reason"]) == ("TIDE-HUB-032", "no token in the answer")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        entra.address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    away = refused(client(tmp_path, entra.client_secret()))
    assert (type(away), away.error_id, away.facts["reason"]) == (
        UnavailableError,
        "TIDE-HUB-032",
        "ConnectionRefusedError",
    )


def test_a_new_token_that_does_not_hold_now_tells_of_a_wrong_clock(
    tmp_path: Path, entra: TokenEndpoint, key: SigningKey
) -> None:
    entra.begins_in_seconds, entra.lifetime_seconds = 600, 4000
    (tmp_path / "token").write_text(key.sign(NAMESPACE, 4000, begins_in_seconds=600))
    for auth in (entra.client_secret(), {"token_file": str(tmp_path / "token")}):
        behind = refused(client(tmp_path, auth))
        assert (type(behind), behind.error_id) == (UnavailableError, "TIDE-HUB-035")
        assert str(behind.facts["clock_of_this_machine"]).endswith("s behind")
    entra.begins_in_seconds, entra.lifetime_seconds = -600, -60
    ahead = refused(client(tmp_path, entra.client_secret()))
    assert ahead.error_id == "TIDE-HUB-035"
    assert str(ahead.facts["clock_of_this_machine"]).endswith("s ahead")


def test_a_token_is_for_the_namespace_in_its_cloud_whatever_leads_there(
    tmp_path: Path, entra: TokenEndpoint
) -> None:
    def scope(**keys: Any) -> str:
        jaas = client(tmp_path, entra.client_secret(), **keys).spark_options()["kafka.sasl.jaas.config"]
        return jaas.rpartition('scope="')[2].partition('"')[0]

    assert scope(endpoint="127.0.0.1:19093") == f"{NAMESPACE}/.default"
    china = "plant-north.servicebus.chinacloudapi.cn"
    assert scope(endpoint=f"{china}:9093") == f"https://{china}/.default"


def test_brokers_of_the_environment_are_reached_by_any_login(tmp_path: Path, entra: TokenEndpoint) -> None:
    def of(auth: dict[str, Any]) -> KafkaClient:
        security = {"protocol": "SASL_SSL", "event_hubs": auth, "ca_file": "/ca.pem"}
        servers = "plant-north.servicebus.windows.net:9093"
        kafka = {"kafka": {"bootstrap_servers": servers, "security": security}}
        return environment_client(declared(tmp_path, environment=kafka).environment)

    sender = of(entra.client_secret())
    assert f'scope="{NAMESPACE}/.default"' in sender.spark_options()["kafka.sasl.jaas.config"]
    assert sender.librdkafka_config()["ssl.ca.location"] == "/ca.pem"
    by_string = of({"connection_string": "hub-client"}).librdkafka_config()
    assert (by_string["sasl.username"], by_string["sasl.password"]) == ("$ConnectionString", CLIENT_SECRET)


@pytest.mark.parametrize("end", ["NaN", "Infinity", "-1e999", "9" * 400, '"soon"', "null"])
def test_a_token_that_ends_at_no_time_is_none(end: str) -> None:
    claims = base64.urlsafe_b64encode(f'{{"exp": {end}}}'.encode()).decode().rstrip("=")
    with pytest.raises(ValueError, match="does not say when it expires"):
        read_token(f"head.{claims}.signature")
