"""A broker refuses a token while a pipeline runs: the driver waits, unless the next token is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.declared import declared
from tests.support.token_endpoint import CLIENT_SECRET, SigningKey, TokenEndpoint
from tidemill.engine.availability import failure_of
from tidemill.errors import SpecError, UnavailableError
from tidemill.spec.project import Pipeline

REFUSED = RuntimeError("org.apache.kafka.common.errors.SaslAuthenticationException: {status: invalid_token}")
NO_CLIENT = RuntimeError("org.apache.kafka.common.KafkaException: Failed to construct kafka consumer")


@pytest.fixture
def entra(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CLIENT", CLIENT_SECRET)
    monkeypatch.setenv("TIDEMILL_SECRET_HUB", "canary")
    with TokenEndpoint(SigningKey()).listening() as endpoint:
        yield endpoint


def reading(folder: Path, auth: dict[str, Any]) -> Pipeline:
    return declared(folder, source={"eventhubs": {"namespace": "plant", "hub": "readings", "auth": auth}})


def sending(folder: Path, auth: dict[str, Any]) -> Pipeline:
    security = {"protocol": "SASL_SSL", "event_hubs": auth}
    kafka = {"bootstrap_servers": "plant.servicebus.windows.net:9093", "security": security}
    source = {"rate": {"rows_per_second": 1}}
    return declared(folder, environment={"kafka": kafka}, source=source, sinks=[{"kafka": {"topic": "o"}}])


@pytest.mark.parametrize("pipeline", [reading, sending])
def test_the_cause_is_asked_for_again(tmp_path: Path, entra: TokenEndpoint, pipeline: Any) -> None:
    by_secret = pipeline(tmp_path, entra.client_secret())
    entra.broken = 503
    for failure in (REFUSED, NO_CLIENT):
        silent = failure_of(by_secret, failure)
        assert (type(silent), silent.error_id) == (UnavailableError, "TIDE-HUB-032")
    entra.broken = 0
    ended = failure_of(by_secret, REFUSED)
    assert (type(ended), ended.error_id) == (UnavailableError, "TIDE-HUB-036")
    assert failure_of(by_secret, NO_CLIENT).error_id == "TIDE-SRC-001"


def test_a_secret_that_was_revoked_meanwhile_needs_a_person(
    tmp_path: Path, entra: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CLIENT", "canary-that-is-wrong")
    revoked = failure_of(reading(tmp_path, entra.client_secret()), REFUSED)
    assert (type(revoked), revoked.error_id) == (SpecError, "TIDE-HUB-030")
    assert "canary" not in str(revoked)


def test_other_failures_and_other_logins_stay_what_they_are(tmp_path: Path, entra: TokenEndpoint) -> None:
    by_string = reading(tmp_path, {"connection_string": "hub"})
    assert failure_of(by_string, REFUSED).error_id == "TIDE-SRC-003"
    by_secret = reading(tmp_path, entra.client_secret())
    own = SpecError("TIDE-SRC-003", "The broker refuses the credentials.")
    assert failure_of(by_secret, own) is own
    assert failure_of(by_secret, RuntimeError("No space left on device")).error_id == "TIDE-STOR-003"
    assert entra.tokens == []
