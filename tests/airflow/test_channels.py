"""An environment's channels: each is notified once, independently of the others, and shows no secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mail_server import MailServer, mail_server
from tests.support.webhook import Webhook, webhook
from tidemill.errors import SpecError, UnavailableError, UsageError

TOKEN = "s3cr3t-t0ken"

HOSTILE = 'orders: failed: {{ 7*7 }} <script>alert(1)</script> <!channel> "; rm -rf /'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set AIRFLOW_HOME, because Airflow creates this folder at its import."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as running:
        yield running


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server() as running:
        plain = {"disable_ssl": True, "disable_tls": True, "from_email": "tidemill@example.com", "timeout": 5}
        connect(monkeypatch, "mail", conn_type="smtp", host="127.0.0.1", port=running.port, extra=plain)
        yield running


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **connection: Any) -> None:
    """Set an Airflow connection, as a deployment does."""
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))


def tell(declared: dict[str, Any], text: str = "orders: hold") -> None:
    from tidemill.control.news import Notice
    from tidemill.spec.notify import Channel
    from tidemill_airflow.channels import open_channel

    notice = Notice("Tidemill prod: orders needs a person", text, "prod", ({"pipeline": "orders"},))
    open_channel(Channel.model_validate(declared))(notice, {})


def test_a_webhook_gets_json_with_the_token_of_its_connection(
    hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "oncall", conn_type="http", host=f"{hook.url}/teams/42", password=TOKEN)
    tell({"webhook": {"connection": "oncall"}}, HOSTILE)
    (notice,) = hook.notices
    assert notice == {
        "subject": "Tidemill prod: orders needs a person",
        "text": HOSTILE,
        "environment": "prod",
        "changes": [{"pipeline": "orders"}],
    }
    assert (hook.paths, hook.keys) == (["/teams/42"], [f"Bearer {TOKEN}"])


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        ({"conn_type": "http", "host": "https://a.example/x/y"}, "https://a.example/x/y"),
        (
            {"conn_type": "http", "host": "a.example", "schema": "https", "port": 8443},
            "https://a.example:8443",
        ),
        # These are the fields that Airflow reads from the URI https://a.example/x/y.
        ({"conn_type": "https", "host": "a.example", "schema": "x/y"}, "https://a.example/x/y"),
    ],
)
def test_an_address_is_found_as_connections_have_it(connection: dict[str, Any], address: str) -> None:
    from airflow.sdk import Connection

    from tidemill_airflow.channels import address_of

    assert address_of("webhook", Connection(conn_id="oncall", **connection)) == address


@pytest.mark.parametrize(
    "connection",
    [
        {"conn_type": "http", "host": "http://a.example", "password": TOKEN},
        {"conn_type": "http", "host": "file:///etc/passwd"},
        {"conn_type": "http", "host": ""},
        {"conn_type": "ftp", "host": "a.example"},
    ],
)
def test_no_secret_goes_over_the_network_in_the_clear_and_nothing_but_http_is_asked(
    connection: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "oncall", **connection)
    with pytest.raises(UsageError) as refused:
        tell({"webhook": {"connection": "oncall"}})
    assert refused.value.error_id == "TIDE-CTRL-072"
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("answer", [404, 500, 302, 307])
def test_a_webhook_that_does_not_take_it_is_an_error_without_its_address(
    hook: Webhook, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    connect(monkeypatch, "oncall", conn_type="http", host=f"{hook.url}/{TOKEN}", password=TOKEN)
    hook.answer, hook.leads_to = answer, f"{hook.url}/elsewhere"
    with pytest.raises(UnavailableError) as failed:
        tell({"webhook": {"connection": "oncall"}})
    assert (failed.value.error_id, failed.value.facts["cause"]) == ("TIDE-CTRL-071", f"HTTP {answer}")
    assert hook.paths == [f"/{TOKEN}"]
    assert TOKEN not in str(failed.value)
    assert failed.value.__cause__ is None


@pytest.mark.parametrize("path", [f"/{TOKEN} x", f":{TOKEN}/", f"/\n{TOKEN}", f"/{TOKEN}/ö"])
def test_an_address_that_is_none_is_not_shown_either(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    from tidemill.control.news import Notice
    from tidemill.spec.notify import Channel
    from tidemill_airflow.channels import open_channel
    from tidemill_airflow.notify import Channels, tell_all

    connect(monkeypatch, "oncall", conn_type="http", host=f"https://127.0.0.1{path}")
    channel = Channel.model_validate({"webhook": {"connection": "oncall"}})
    channels = Channels({channel.name: open_channel(channel)}, {})
    assert tell_all(channels, {channel.name: Notice("s", "t", "prod", ())}, {}) == {channel.name}
    assert "webhook oncall" in caplog.text
    assert TOKEN not in caplog.text


def test_a_mail_has_a_subject_and_takes_no_word_of_an_error_for_a_template(mails: MailServer) -> None:
    tell({"email": {"to": ["ann@example.com", "bob@example.com"], "connection": "mail"}}, HOSTILE)
    (mail,) = mails.mails
    assert (mail.sender, mail.to) == ("tidemill@example.com", ["ann@example.com", "bob@example.com"])
    assert mail.message["Subject"] == "Tidemill prod: orders needs a person"
    assert "{{ 7*7 }} &lt;script&gt;" in mail.text


def test_a_mail_that_nobody_takes_is_an_error(mails: MailServer) -> None:
    mails.refuses = True
    with pytest.raises(UnavailableError) as failed:
        tell({"email": {"to": ["ann@example.com"], "connection": "mail"}})
    assert failed.value.facts["channel"] == "email mail to ann@example.com"


def test_slack_without_its_provider_is_refused_with_the_package() -> None:
    with pytest.raises(SpecError) as refused:
        tell({"slack": {"connection": "chat"}})
    assert refused.value.error_id == "TIDE-CTRL-070"
    assert "apache-airflow-providers-slack" in refused.value.fix


def test_the_log_has_the_level_that_is_declared(caplog: pytest.LogCaptureFixture) -> None:
    tell({"log": {"level": "error"}})
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [(logging.ERROR, "orders: hold")]
