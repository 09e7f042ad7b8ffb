from __future__ import annotations

from pathlib import Path

from tidemill.dev.broker_config import BrokerConfig, KeyStore, PlainLogin, server_properties

LOGIN = PlainLogin("$ConnectionString", "secret")
STORE = KeyStore(Path("/keys/server.p12"), "opens")


def properties(config: BrokerConfig) -> dict[str, str]:
    ports = {name: 20_000 + number for number, name in enumerate(config.listeners)}
    text = server_properties(config, ports)
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_plain_broker_has_one_listener_beside_the_controllers() -> None:
    found = properties(BrokerConfig(Path("/data")))
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:20000,CONTROLLER://127.0.0.1:20001"
    assert found["advertised.listeners"] == "PLAINTEXT://127.0.0.1:20000"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:20001"
    assert found["log.dirs"] == "/data/records"
    assert not [name for name in found if "sasl" in name or "ssl" in name]


def test_a_login_adds_a_secured_listener_and_a_certificate_an_encrypted_one() -> None:
    assert BrokerConfig(Path("/data"), login=LOGIN).listeners == (
        "PLAINTEXT",
        "SASL_PLAINTEXT",
        "CONTROLLER",
    )
    both = BrokerConfig(Path("/data"), login=LOGIN, key_store=STORE)
    assert both.listeners == ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "CONTROLLER")
    assert properties(both)["ssl.keystore.location"] == "/keys/server.p12"


def test_a_password_is_quoted_for_jaas_and_then_for_the_properties_file() -> None:
    login = PlainLogin("user", 'a"b\\c=ä')
    line = properties(BrokerConfig(Path("/data"), login=login))[
        "listener.name.sasl_ssl.plain.sasl.jaas.config"
    ]
    assert line.endswith(r'user_user="a\\"b\\\\c=\u00e4";')


def test_a_line_break_in_a_value_cannot_add_a_property() -> None:
    found = properties(BrokerConfig(Path("/data"), properties={"a": "b\nlisteners=PLAINTEXT://0.0.0.0:1"}))
    assert found["listeners"].startswith("PLAINTEXT://127.0.0.1")


def test_given_properties_win_over_ours() -> None:
    found = properties(BrokerConfig(Path("/data"), properties={"num.partitions": 9}))
    assert found["num.partitions"] == "9"


def test_passwords_are_not_shown_in_a_config() -> None:
    shown = repr(BrokerConfig(Path("/data"), login=LOGIN, key_store=STORE))
    assert "secret" not in shown
    assert "opens" not in shown
