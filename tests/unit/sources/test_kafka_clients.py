"""Client settings of Kafka and Event Hubs: complete, escaped, and silent about passwords."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.declared import declared
from tidemill.errors import SpecError
from tidemill.sources.kafka_clients import KafkaClient, kafka_client
from tidemill.spec.secret_value import read_secret

CONNECTION_STRING = (
    "Endpoint=sb://plant.servicebus.windows.net/;SharedAccessKeyName=read;SharedAccessKey=a+b/c="
)


def sasl(password: str, username: str = "reader", mechanism: str = "PLAIN") -> KafkaClient:
    return KafkaClient("broker:9093", "SASL_SSL", mechanism, username, password, "/ca.pem")


def test_plain_brokers_need_nothing_but_their_address() -> None:
    client = KafkaClient("broker:9092")
    assert client.spark_options() == {"kafka.bootstrap.servers": "broker:9092"}
    assert client.librdkafka_config() == {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "PLAINTEXT",
    }


def test_spark_and_librdkafka_are_told_the_same() -> None:
    assert sasl("secret").spark_options() == {
        "kafka.bootstrap.servers": "broker:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="reader" password="secret";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
    }
    assert sasl("secret").librdkafka_config() == {
        "bootstrap.servers": "broker:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": "secret",
        "ssl.ca.location": "/ca.pem",
    }


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_has_its_own_login_module(mechanism: str) -> None:
    jaas = sasl("secret", mechanism=mechanism).spark_options()["kafka.sasl.jaas.config"]
    assert jaas.startswith("org.apache.kafka.common.security.scram.ScramLoginModule required ")


@pytest.mark.parametrize(
    ("password", "written"),
    [
        ('a"b', r"a\"b"),
        ("a\\b", r"a\\b"),
        ('a\\"b', r"a\\\"b"),
        ("ends\\", r"ends\\"),
        ("a;b' c=d", "a;b' c=d"),
        ("ü€", "ü€"),
    ],
)
def test_quotes_and_backslashes_of_a_password_are_escaped(password: str, written: str) -> None:
    jaas = sasl(password).spark_options()["kafka.sasl.jaas.config"]
    assert jaas.endswith(f' password="{written}";')


@given(username=st.text(), password=st.text())
def test_a_jaas_line_is_read_back_as_user_and_password(username: str, password: str) -> None:
    """Read as Kafka's tokenizer does: a quoted value ends at a quote without a backslash before it."""
    jaas = sasl(password, username).spark_options()["kafka.sasl.jaas.config"]
    rest = jaas.partition(" required username=")[2]
    read_name, rest = quoted(rest)
    read_password, rest = quoted(rest.removeprefix(" password="))
    assert (read_name, read_password, rest) == (username, password, ";")


def quoted(text: str) -> tuple[str, str]:
    """Return the value of a quoted text at the beginning, and what follows it."""
    assert text[0] == '"'
    value, position = "", 1
    while text[position] != '"':
        position += text[position] == "\\"
        value += text[position]
        position += 1
    return value, text[position + 1 :]


def test_nothing_that_is_shown_of_a_client_holds_its_password() -> None:
    client = sasl("hunter2", username="someone")
    assert repr(client) == str(client) == "KafkaClient('broker:9093', SASL_SSL)"
    assert "hunter2" not in f"{[client]} {(client,)} {ValueError(client)}"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("TIDEMILL_SECRET_PLANT_READ", CONNECTION_STRING)
    return {"namespace": "plant-north", "hub": "events", "auth": {"connection_string": "plant-read"}}


def test_an_event_hub_is_reached_with_its_connection_string_as_password(
    tmp_path: Path, hub: dict[str, Any]
) -> None:
    options = kafka_client(declared(tmp_path, source={"eventhubs": hub})).spark_options()
    assert options == {
        "kafka.bootstrap.servers": "plant-north.servicebus.windows.net:9093",
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="$ConnectionString" password="{CONNECTION_STRING}";',
        # Below the 240 s after which Event Hubs cuts idle connections, and what its documentation recommends.
        "kafka.connections.max.idle.ms": "180000",
        "kafka.metadata.max.age.ms": "180000",
        "kafka.request.timeout.ms": "60000",
        "kafka.session.timeout.ms": "30000",
    }


def test_an_event_hub_elsewhere_is_named_by_its_endpoint(tmp_path: Path, hub: dict[str, Any]) -> None:
    source = {**hub, "endpoint": "localhost:19093", "ca_file": "/ca.pem"}
    client = kafka_client(declared(tmp_path, source={"eventhubs": source}))
    assert client.librdkafka_config()["bootstrap.servers"] == "localhost:19093"
    assert client.librdkafka_config()["ssl.ca.location"] == "/ca.pem"


def test_the_brokers_of_the_environment_get_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_BROKER", "hunter2")
    security = {
        "protocol": "SASL_SSL",
        "mechanism": "SCRAM-SHA-512",
        "username": "reader",
        "password": "broker",
    }
    environment = {"kafka": {"bootstrap_servers": "broker:9093", "security": security}}
    client = kafka_client(declared(tmp_path, environment=environment))
    assert client.librdkafka_config()["sasl.password"] == "hunter2"
    assert client.librdkafka_config()["sasl.username"] == "reader"


def test_a_mounted_secret_comes_before_the_variable(tmp_path: Path) -> None:
    (tmp_path / "plant-read").write_text("from the file\n")
    variables = {"TIDEMILL_SECRET_PLANT_READ": "from the variable"}
    mounted = declared(tmp_path, environment={"secrets": {"folder": str(tmp_path)}}).environment
    assert read_secret(mounted, "plant-read", variables) == "from the file"
    bare = declared(tmp_path).environment
    assert read_secret(bare, "plant-read", variables) == "from the variable"


def test_a_relative_folder_of_secrets_is_the_projects(tmp_path: Path) -> None:
    environment = declared(tmp_path, environment={"secrets": {"folder": "secrets"}}).environment
    (environment.project.folder / "secrets").mkdir()
    (environment.project.folder / "secrets" / "plant-read").write_text("from the project")
    assert read_secret(environment, "plant-read", {}) == "from the project"


def test_a_secret_without_a_value_says_where_was_looked(tmp_path: Path) -> None:
    environment = declared(tmp_path, environment={"secrets": {"folder": str(tmp_path)}}).environment
    with pytest.raises(SpecError) as refused:
        read_secret(environment, "plant-read", {"TIDEMILL_SECRET_PLANT_READ": ""})
    assert refused.value.error_id == "TIDE-SPEC-030"
    assert refused.value.facts == {
        "secret": "plant-read",
        "looked_in": f"file {tmp_path}/plant-read, variable TIDEMILL_SECRET_PLANT_READ",
    }
