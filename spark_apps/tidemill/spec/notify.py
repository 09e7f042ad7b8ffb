"""Channels for notifications about unhealthy streams and late runs, without addresses or secrets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tidemill.spec.strict import OneOf, Strict

# Id of an Airflow connection, which has the address and its secret.
ConnectionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$")]
# One address for a mail header, without white space, lists or templates.
MailAddress = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9.!#$&'*+/=?^_`~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})$")
]
# Name with `#`, as in `#streams`, or id.
SlackChannel = Annotated[str, Field(pattern=r"^[#@]?[A-Za-z0-9._-]{1,80}$")]


class Log(Strict):
    """The log of the Airflow task, for services that collect logs."""

    level: Literal["info", "warning", "error"] = Field("warning", description="Log level.")


class Webhook(Strict):
    """A POST of JSON: `text`, `subject`, `environment` and `changes`."""

    connection: ConnectionId = Field(
        description="Airflow connection with the address, either as a URL in `host` or as scheme, host and "
        "port. Login and password are sent as basic authentication, a password alone as a bearer token."
    )


class Email(Strict):
    """A mail, through Airflow's SMTP provider."""

    to: list[MailAddress] = Field(min_length=1, max_length=50, description="Recipients.")
    sender: MailAddress | None = Field(
        None, alias="from", description="Sender. Default: the `from_email` of the connection."
    )
    connection: ConnectionId = Field("smtp_default", description="Airflow connection of the mail server.")


class Slack(Strict):
    """A Slack message, through Airflow's Slack provider, which must be installed together with Airflow."""

    connection: ConnectionId = Field(
        "slack_default", description="Airflow connection of Slack's incoming webhook."
    )
    channel: SlackChannel | None = Field(None, description="Channel, if the webhook does not determine it.")


class Channel(OneOf):
    """One notification channel."""

    log: Log | None = Field(None, description="The log of the Airflow task.")
    webhook: Webhook | None = Field(None, description="Any service that accepts JSON over HTTP.")
    email: Email | None = Field(None, description="Mail.")
    slack: Slack | None = Field(None, description="Slack.")

    @property
    def name(self) -> str:
        """Return a unique name without secrets, under which sent notifications are recorded."""
        match self.chosen:
            case Email(to=to, connection=connection):
                return f"email {connection} to {', '.join(to)}"
            case Slack(connection=connection, channel=channel):
                return f"slack {connection} {channel or ''}".rstrip()
            case Webhook(connection=connection):
                return f"webhook {connection}"
        return self.kind


def _each_once(channels: list[Channel]) -> list[Channel]:
    names = [channel.name for channel in channels]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"{', '.join(sorted(repeated))}: declared twice, and would be told twice")
    return channels


Channels = Annotated[list[Channel], Field(max_length=20), AfterValidator(_each_once)]
