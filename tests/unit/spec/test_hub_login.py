"""Logins to Event Hubs: exactly one, names of secrets, and proofs sent over https only."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.conf_project import ConfProject
from tidemill.spec.environment import KafkaSecurity
from tidemill.spec.eventhubs_source import EventHubsSource
from tidemill.spec.hub_login import HubLogin

CLIENT = {"tenant": "plant.example.com", "client": "1111-2222", "secret": "hub-client"}


@pytest.mark.parametrize(
    ("auth", "kind"),
    [
        ({"connection_string": "hub"}, "connection_string"),
        ({"client_secret": CLIENT}, "client_secret"),
        ({"client_secret": {**CLIENT, "authority": "https://login.microsoftonline.us/"}}, "client_secret"),
        ({"client_secret": {**CLIENT, "authority": "http://127.0.0.1:8080"}}, "client_secret"),
        ({"token_file": "/var/run/tokens/hub"}, "token_file"),
        ({"workload_identity": {}}, "workload_identity"),
        ({"workload_identity": {"client": "1111-2222", "tenant": "3333"}}, "workload_identity"),
    ],
)
def test_a_login_is_one_of_four(auth: dict[str, Any], kind: str) -> None:
    login = HubLogin.model_validate(auth)
    assert login.kind == kind
    assert "secret" not in login.facts or login.facts["secret"] in ("hub", "hub-client")
    KafkaSecurity.model_validate({"protocol": "SASL_SSL", "event_hubs": auth})


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({}, "exactly one of"),
        ({"connection_string": "hub", "token_file": "/hub"}, "found connection_string and token_file"),
        ({"client_secret": {**CLIENT, "authority": "http://login.example.com"}}, "https only"),
        ({"client_secret": {**CLIENT, "authority": "https://user:word@login.example.com"}}, "pattern"),
        ({"client_secret": {**CLIENT, "secret": "Abc8Q~value"}}, "pattern"),
        ({"client_secret": {**CLIENT, "tenant": "a/b"}}, "pattern"),
        ({"token_file": "tokens/hub"}, "pattern"),
    ],
)
def test_other_logins_are_refused(auth: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said) as refused:
        HubLogin.model_validate(auth)
    assert "Abc8Q" not in str(refused.value)


@pytest.mark.parametrize(
    "security",
    [
        {"protocol": "PLAINTEXT"},
        {"protocol": "SASL_PLAINTEXT"},
        {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "a", "password": "b"},
    ],
)
def test_a_namespace_is_reached_encrypted_and_by_one_login(security: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="needs SASL_SSL, and no mechanism"):
        KafkaSecurity.model_validate({**security, "event_hubs": {"workload_identity": {}}})


@pytest.mark.parametrize("key", ["connection_string", "client_secret", "token_file", "workload_identity"])
def test_a_login_beside_auth_is_told_its_place(key: str) -> None:
    with pytest.raises(ValidationError, match=f"`{key}` belongs below `auth`"):
        EventHubsSource.model_validate({"namespace": "plant", "hub": "readings", key: "hub"})


def test_an_unknown_key_of_a_login_has_a_near_one(project: ConfProject) -> None:
    project.replace(
        "kafka:\n    topic: orders", "eventhubs: {namespace: n, hub: h, auth: {conection_string: hub}}"
    )
    assert "connection_string" in str(project.refusal())
