"""Whom an environment tells of streams that need a person and of late runs. No address or secret is here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tidemill.spec.strict import OneOf, Strict

# Id of a connection of Airflow, which knows the address and its secret.
ConnectionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$")]
# What stands in a mail's header: no white space, no list, no template.
MailAddress = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9.!#$&'*+/=?^_`~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})$")
]
# As Slack writes it, `#streams`, or its id.
SlackChannel = Annotated[str, Field(pattern=r"^[#@]?[A-Za-z0-9._-]{1,80}$")]


class Log(Strict):
    """The log of the task, where a service that collects logs may watch for it."""

    level: Literal["info", "warning", "error"] = Field("warning", description="Its level there.")


class Webhook(Strict):
    """A POST of JSON: `text`, `subject`, `environment` and `changes`."""

    connection: ConnectionId = Field(
        description="Airflow connection with the address: the whole of it as host, or scheme, host and port. "
        "Login and password are sent by basic authentication, a password alone as a bearer token."
    )


class Email(Strict):
    """A mail, through Airflow's SMTP provider."""

    to: list[MailAddress] = Field(min_length=1, max_length=50, description="Who gets it.")
    sender: MailAddress | None = Field(
        None, alias="from", description="Who sends it; else the `from_email` of the connection."
    )
    connection: ConnectionId = Field("smtp_default", description="Airflow connection of the mail server.")


class Slack(Strict):
    """A message in Slack, through Airflow's Slack provider, which must be installed beside Airflow."""

    connection: ConnectionId = Field(
        "slack_default", description="Airflow connection of an incoming webhook of Slack."
    )
    channel: SlackChannel | None = Field(None, description="Where to, if the webhook leaves that open.")


class Channel(OneOf):
    """One way of telling people."""

    log: Log | None = Field(None, description="The task's log.")
    webhook: Webhook | None = Field(None, description="Any service that takes JSON over HTTP.")
    email: Email | None = Field(None, description="Mail.")
    slack: Slack | None = Field(None, description="Slack.")

    @property
    def name(self) -> str:
        """Tells it apart from the others, without a secret; what it was told is remembered by this."""
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
