"""Send notices to the channels of an environment; Airflow connections hold addresses and secrets."""

from __future__ import annotations

import base64
import html
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tidemill.errors import SpecError, UnavailableError, UsageError
from tidemill.spec.notify import Channel, Email, Log, Slack, Webhook
from tidemill.spec.web_address import check_encrypted

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from tidemill.control.news import Notice

# Sends a notice; also gets the task's context.
Tell = Callable[["Notice", Mapping[str, Any]], object]

# Maximum seconds for each step of a request: connecting, sending, receiving the answer.
ANSWER_SECONDS = 10

log = logging.getLogger("tidemill.notify")


def open_channel(channel: Channel) -> Tell:
    """Return the function that sends notices to a channel.

    Raises:
        SpecError: TIDE-CTRL-070, if it needs a package that is not installed.
    """
    match channel.chosen:
        case Log(level=level):
            return lambda notice, _: log.log(logging.getLevelName(level.upper()), "%s", notice.text)
        case Webhook() as webhook:
            return lambda notice, _: post(channel.name, _connection(webhook.connection), notice)
        case Email() as email:
            return lambda notice, _: mail(channel.name, email, notice)
        case Slack() as slack:
            return slack_channel(channel.name, slack)
    raise AssertionError(channel.kind)


def post(name: str, connection: Connection, notice: Notice) -> None:
    """Send a notice as JSON. Redirects are not followed, because they could leak the secret to another host.

    Raises:
        UsageError: TIDE-CTRL-072, if the connection has no address that the notice may be sent to.
        UnavailableError: TIDE-CTRL-071, if it did not arrive; without the address, which may hold a secret.
    """
    address = address_of(name, connection)
    headers = {"Content-Type": "application/json", "User-Agent": "tidemill", **_authorization(connection)}
    body = json.dumps(notice.as_document()).encode()
    try:
        # `address_of` has checked that the scheme is http or https.
        request = urllib.request.Request(address, body, headers, method="POST")  # noqa: S310
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=ANSWER_SECONDS):
            pass
    except urllib.error.HTTPError as error:
        with error:
            raise _not_told(name, f"HTTP {error.code}") from None
    except (OSError, ValueError, HTTPException) as error:
        raise _not_told(name, _cause(error)) from None


def address_of(name: str, connection: Connection) -> str:
    """Return the address of a connection: its host if that is a full URL, else scheme, host, port and path.

    The connection's `schema` is the scheme if it was entered in a form, and the path if it was written as a
    URI.

    Raises:
        UsageError: TIDE-CTRL-072, if this is not an address, or if it is unencrypted although there is a
            password.
    """
    host, schema = connection.host or "", connection.schema or ""
    address = host
    if "://" not in host:
        scheme = schema if schema in ("http", "https") else connection.conn_type
        port = f":{connection.port}" if connection.port else ""
        path = "" if schema in ("", "http", "https") else f"/{schema}"
        address = f"{scheme}://{host}{port}{path}"
    parts = urlsplit(address)
    problem = None if parts.scheme in ("http", "https") and parts.hostname else "it names no http(s) address"
    try:
        check_encrypted(address, None, has_credentials=bool(connection.password))
    except ValueError as error:
        problem = problem or str(error)
    if problem is not None:
        raise UsageError(
            "TIDE-CTRL-072",
            "The connection of a webhook cannot be used.",
            facts={"channel": name, "connection": connection.conn_id, "reason": problem},
            fix="give the connection the whole https address as its host",
        )
    return address


def mail(name: str, email: Email, notice: Notice) -> None:
    """Send a notice as email by Airflow's SMTP provider.

    Raises:
        UnavailableError: TIDE-CTRL-071, if the server did not accept it.
    """
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    notifier = SmtpNotifier(
        to=list(email.to),
        from_email=email.sender,
        subject=notice.subject,
        html_content=f"<pre>{html.escape(notice.text)}</pre>",
        smtp_conn_id=email.connection,
    )
    # Do not call the notifier itself: it would render error texts as templates, and hide errors.
    _send(name, notifier.notify)


def slack_channel(name: str, slack: Slack) -> Tell:
    """Return the function that sends notices to Slack by Airflow's provider.

    Raises:
        SpecError: TIDE-CTRL-070, if the provider is not installed.
    """
    try:
        from airflow.providers.slack.notifications.slack_webhook import SlackWebhookNotifier
    except ImportError as error:
        raise SpecError(
            "TIDE-CTRL-070",
            "Airflow's Slack provider is not installed, so nobody would be told.",
            facts={"channel": name},
            fix="install apache-airflow-providers-slack beside Airflow, or remove the channel from `notify`",
        ) from error

    def tell(notice: Notice, _context: Mapping[str, Any]) -> None:
        # Slack uses these three characters for links and for mentions such as @channel.
        text = notice.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        notifier = SlackWebhookNotifier(
            slack_webhook_conn_id=slack.connection,
            text=f"*{notice.subject}*\n```{text}```",
            **({"channel": slack.channel} if slack.channel else {}),
        )
        _send(name, notifier.notify)

    return tell


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect, so that the response stays an error."""


def _send(name: str, notify: Callable[[Any], object]) -> None:
    try:
        notify({})
    except Exception as error:  # noqa: BLE001  # may contain an address or a password
        raise _not_told(name, _cause(error)) from None


def _connection(name: str) -> Connection:
    from airflow.sdk import Connection

    connection: Connection = Connection.get(name)
    return connection


def _authorization(connection: Connection) -> dict[str, str]:
    if not connection.password:
        return {}
    if not connection.login:
        return {"Authorization": f"Bearer {connection.password}"}
    both = base64.b64encode(f"{connection.login}:{connection.password}".encode()).decode()
    return {"Authorization": f"Basic {both}"}


def _not_told(name: str, cause: str) -> UnavailableError:
    return UnavailableError(
        "TIDE-CTRL-071",
        "A channel could not be told.",
        facts={"channel": name, "cause": cause},
        fix="see its connection in Airflow; it is told at the next visit",
    )


def _cause(error: BaseException) -> str:
    """Return the cause without text that may contain an address."""
    reason = getattr(error, "reason", error)
    said = getattr(reason, "strerror", None) or getattr(reason, "smtp_code", None)
    return f"{type(reason).__name__}: {said}" if said else type(reason).__name__
