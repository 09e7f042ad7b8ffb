"""Tokens instead of a connection string, on a broker that checks signature, audience and end of each."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from deltalake import DeltaTable

from tests.support.driver_process import START_TIMEOUT_SECONDS, DriverProcess, Drivers, drivers_of
from tests.support.eventually import eventually
from tests.support.kafka import Kafka
from tests.support.lake import Lake, LakePipeline
from tests.support.token_endpoint import (
    CLIENT,
    CLIENT_SECRET,
    FEDERATED_CLIENT,
    NAMESPACE,
    SigningKey,
    TokenEndpoint,
    kept_fresh,
)
from tidemill.dev.broker_config import SASL_SSL
from tidemill.engine.availability import check_source
from tidemill.errors import SpecError

CLIENT_VARIABLE = "TIDEMILL_SECRET_HUB_CLIENT"

# Kafka's clients renew a token after 80% of its life; three seconds of reserve on a busy machine.
LIFETIME_SECONDS = 15

TABLE = [{"delta": {"table": "bronze/other"}}]

UNION = """
def transform(by_secret, by_file, by_identity):
    columns = "CAST(CAST(kafka_value AS STRING) AS BIGINT) AS id", "kafka_topic"
    found = [each.selectExpr(*columns) for each in (by_secret, by_file, by_identity)]
    return found[0].unionByName(found[1]).unionByName(found[2])
"""


@dataclass
class Hubs:
    """Three hubs, each read by another login, and a topic that is sent to by the first one."""

    lake: Lake
    kafka: Kafka
    entra: TokenEndpoint
    token_file: Path
    written: list[str]
    variables: dict[str, str]
    topics: dict[str, str]
    sent: int = 0

    @property
    def logins(self) -> dict[str, dict[str, Any]]:
        return {
            "by_secret": self.entra.client_secret(),
            "by_file": {"token_file": str(self.token_file)},
            "by_identity": {"workload_identity": {}},
        }

    def source(self, name: str) -> dict[str, Any]:
        return {
            "namespace": "plant-north",
            "hub": self.topics[name],
            "auth": self.logins[name],
            "endpoint": self.kafka.broker.listeners[SASL_SSL],
            "ca_file": str(self.kafka.authority),
        }

    def pipeline(self) -> LakePipeline:
        return self.lake.pipeline(
            "readings",
            sources={name: {"eventhubs": self.source(name)} for name in self.logins},
            transform=self.lake.transform("readings", UNION),
            sinks=[{"delta": {"table": "bronze/readings"}}, {"kafka": {"topic": self.topics["sent"]}}],
            run={"mode": "stream", "trigger": "1 second", "shuffle_partitions": 1},
        )

    def send(self) -> None:
        """Send the next number to each hub."""
        for name in self.logins:
            self.kafka.send(self.topics[name], [str(self.sent).encode()])
        self.sent += 1

    def expected(self) -> Counter[tuple[str, int]]:
        return Counter((self.topics[name], n) for name in self.logins for n in range(self.sent))

    @property
    def table(self) -> str:
        return str(self.lake.root / "tables/bronze/readings")

    def found(self) -> Counter[tuple[str, int]]:
        return Counter((row["kafka_topic"], row["id"]) for row in self.lake.rows("bronze/readings"))

    def delivered(self) -> Counter[tuple[str, int]]:
        records = [json.loads(record.value or b"{}") for record in self.kafka.read(self.topics["sent"])]
        return Counter((record["kafka_topic"], record["id"]) for record in records)

    def all_arrive(self, driver: DriverProcess) -> None:
        def arrived() -> bool:
            assert driver.is_running(), driver.output[-5000:]
            return DeltaTable.is_deltatable(self.table) and self.found() == self.expected()

        eventually(arrived, "all events are in the table", START_TIMEOUT_SECONDS)

    def send_until(self, moment: float, driver: DriverProcess) -> None:
        """Send an event to each hub at intervals."""

        def is_over() -> bool:
            assert driver.is_running(), driver.output[-5000:]
            self.send()
            return time.time() > moment

        eventually(is_over, "the tokens have ended", 10 * LIFETIME_SECONDS)

    def shown(self) -> list[Path]:
        """Return the files of project, storage and logs that contain a part of a secret, proof or token."""
        tokens = [token.rpartition(".")[2] for token in [*self.entra.tokens, *self.written]]
        parts = [part.encode() for part in (CLIENT_SECRET, self.entra.proof, *tokens)]
        files = [path for path in self.lake.folder.rglob("*") if path.is_file()]
        assert len(files) > 10
        return [path for path in files if any(part in path.read_bytes() for part in parts)]


@pytest.fixture
def hubs(
    tmp_path: Path, kafka: Kafka, signing_key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hubs]:
    token_file = tmp_path / "token"
    with (
        TokenEndpoint(signing_key, lifetime_seconds=LIFETIME_SECONDS).listening() as entra,
        kept_fresh(token_file, signing_key, LIFETIME_SECONDS) as written,
    ):
        variables = {CLIENT_VARIABLE: CLIENT_SECRET, **entra.pod(tmp_path / "proof")}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        security = {
            "protocol": "SASL_SSL",
            "event_hubs": entra.client_secret(),
            "ca_file": str(kafka.authority),
        }
        servers = {"bootstrap_servers": kafka.broker.listeners[SASL_SSL], "security": security}
        lake = Lake(tmp_path / "lake", None, environment={"kafka": servers})
        topics = {name: kafka.new_topic(name) for name in ("by_secret", "by_file", "by_identity", "sent")}
        yield Hubs(lake, kafka, entra, token_file, written, variables, topics)


@pytest.fixture
def drivers(hubs: Hubs) -> Iterator[Drivers]:
    with drivers_of(hubs.lake.folder, hubs.variables) as drivers:
        yield drivers


def test_the_broker_takes_each_login_and_refuses_a_token_for_another_namespace(
    hubs: Hubs, signing_key: SigningKey
) -> None:
    pipeline = hubs.pipeline()
    check_source(pipeline.resolved)

    assert {application: len(tokens) for application, tokens in hubs.entra.issued.items()} == {
        CLIENT: 1,
        FEDERATED_CLIENT: 1,
    }
    for token in hubs.entra.tokens:
        assert jwt.decode(token, options={"verify_signature": False})["aud"] == NAMESPACE
    elsewhere = hubs.token_file.with_name("elsewhere")
    elsewhere.write_text(signing_key.sign("https://elsewhere.servicebus.windows.net", 600))
    source = {**hubs.source("by_file"), "auth": {"token_file": str(elsewhere)}}
    with pytest.raises(SpecError) as refused:
        check_source(hubs.lake.pipeline("other", source={"eventhubs": source}, sinks=TABLE).resolved)
    assert refused.value.error_id == "TIDE-SRC-003"
    assert "Data Receiver" in refused.value.fix
    assert "eyJ" not in str(refused.value)


def test_a_stream_outlives_its_tokens_loses_nothing_and_writes_no_secret_anywhere(
    hubs: Hubs, drivers: Drivers
) -> None:
    hubs.pipeline()
    hubs.send()
    driver = drivers.start("readings", "stream")
    hubs.all_arrive(driver)
    # Every token that the driver has by now ends in LIFETIME_SECONDS, and the broker ends its connections.
    first = len(hubs.entra.issued[CLIENT]), len(hubs.entra.issued[FEDERATED_CLIENT]), len(hubs.written)

    hubs.send_until(time.time() + LIFETIME_SECONDS + 2, driver)
    hubs.all_arrive(driver)

    then = len(hubs.entra.issued[CLIENT]), len(hubs.entra.issued[FEDERATED_CLIENT]), len(hubs.written)
    assert all(more > before for before, more in zip(first, then, strict=True))
    assert driver.terminate() == 0, driver.output[-5000:]
    assert hubs.found() == hubs.delivered() == hubs.expected()
    assert '"event": "unavailable"' not in driver.output
    drivers.variables = {**drivers.variables, CLIENT_VARIABLE: "canary-that-is-wrong"}
    wrong = drivers.start("readings", "stream")
    assert wrong.wait(START_TIMEOUT_SECONDS) == SpecError.exit_code
    assert "TIDE-HUB-030" in wrong.output
    assert "canary" not in wrong.output
    assert hubs.shown() == []


@pytest.mark.soak
def test_an_endpoint_that_is_unavailable_for_longer_than_a_token_is_waited_for(
    hubs: Hubs, drivers: Drivers
) -> None:
    hubs.pipeline()
    hubs.send()
    driver = drivers.start("readings", "stream")
    hubs.all_arrive(driver)

    hubs.entra.broken = 503
    drivers.wait_for_status("readings", driver, "waiting", "TIDE-HUB-032")
    hubs.send()
    hubs.entra.broken = 0
    hubs.all_arrive(driver)

    hubs.send_until(time.time() + 4 * LIFETIME_SECONDS, driver)
    hubs.all_arrive(driver)
    assert driver.terminate() == 0, driver.output[-5000:]
    assert hubs.found() == hubs.expected()
    assert hubs.delivered().keys() == hubs.expected().keys()
    assert hubs.shown() == []
