"""Ask an event hub for its facts over AMQP (port 5671); needs no consumer group and reads no events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from azure.core.credentials import AccessToken
from azure.eventhub import EventHubConsumerClient, TransportType
from azure.eventhub.exceptions import AuthenticationError, ConnectError, EventHubError

from tidemill.checkpoint.doctor.hub import HubFacts, HubPartition
from tidemill.errors import InternalError, SpecError, TidemillError, UnavailableError
from tidemill.sources.token_login import TokenLogin, token_login
from tidemill.spec.eventhubs_source import EventHubsSource
from tidemill.spec.project import Pipeline
from tidemill.spec.secret_value import read_secret

# Maximum time for one answer, in seconds. A user waits at a prompt, and the answer is optional.
ANSWER_TIMEOUT_SECONDS = 5

# Only events are read with a consumer group, but the SDK requires its name.
_NO_GROUP = "$Default"

# Over AMQP, tokens are for the service as a whole, in every cloud.
_SCOPE = "https://eventhubs.azure.net/.default"


def ask_hub(pipeline: Pipeline) -> HubFacts:
    """Return the facts of a pipeline's hub.

    Raises:
        UnavailableError: TIDE-HUB-010, if it does not answer; 032 to 035, if no token is available.
        SpecError: TIDE-HUB-011, if the secret is not a connection string, or the hub refuses the login; 012,
            if there is no such hub; 030 or 031, if the application or its tenant is wrong.
    """
    source = pipeline.spec.source.event_hub
    if source is None:
        raise InternalError(
            "TIDE-HUB-019", "A hub was asked for of another source.", facts={"pipeline": pipeline.name}
        )
    client = _client(pipeline, source)
    try:
        with client:
            hub = client.get_eventhub_properties()
            told = [client.get_partition_properties(number) for number in hub["partition_ids"]]
    except (EventHubError, OSError, ValueError) as error:
        # Without its cause, because the SDK's messages may quote a token.
        raise _failed(source, error) from None
    return HubFacts(hub["created_at"], {each["id"]: _partition(each) for each in told})


def _client(pipeline: Pipeline, source: EventHubsSource) -> EventHubConsumerClient:
    login = token_login(source.auth, pipeline.environment, source.host)
    if login is not None:
        return _client_by_token(source, login)
    connection_string = read_secret(pipeline.environment, source.auth.chosen)
    try:
        return EventHubConsumerClient.from_connection_string(
            connection_string, _NO_GROUP, eventhub_name=source.hub, **_limits(source)
        )
    except ValueError as error:
        # Without its cause, which may quote the secret.
        raise _refused(source, type(error).__name__) from None


def _client_by_token(source: EventHubsSource, login: TokenLogin) -> EventHubConsumerClient:
    # Get a token once before the SDK does, because the SDK would wrap the error in its own error class.
    login.token(_SCOPE)
    return EventHubConsumerClient(
        source.host, source.hub, _NO_GROUP, credential=_Credential(login), **_limits(source)
    )


class _Credential:
    """The part of azure-identity's interface that the SDK needs."""

    def __init__(self, login: TokenLogin) -> None:
        self._login = login

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        """Return a token for the hub."""
        token = self._login.token(_SCOPE)
        return AccessToken(token.value, int(token.expires_at))


def _limits(source: EventHubsSource) -> dict[str, Any]:
    limits: dict[str, Any] = {
        "retry_total": 0,
        "auth_timeout": ANSWER_TIMEOUT_SECONDS,
        "socket_timeout": ANSWER_TIMEOUT_SECONDS,
    }
    if source.ca_file is not None:
        limits["connection_verify"] = source.ca_file
    if source.amqp_endpoint is not None:
        # With a custom address, the SDK would use WebSockets.
        address = {"custom_endpoint_address": f"sb://{source.amqp_endpoint}"}
        limits |= {**address, "transport_type": TransportType.Amqp}
    return limits


def _partition(told: dict[str, Any]) -> HubPartition:
    # In an empty partition, the last number is the one before the next event's, or -1.
    end = told["last_enqueued_sequence_number"] + 1
    never = end == 0
    beginning = end if told["is_empty"] else told["beginning_sequence_number"]
    return HubPartition(beginning, end, None if never else _utc(told["last_enqueued_time_utc"]))


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


def _failed(source: EventHubsSource, error: Exception) -> TidemillError:
    if isinstance(error, AuthenticationError):
        return _refused(source, "authentication failed")
    if isinstance(error, ConnectError) and "404" in str(error):
        return SpecError(
            "TIDE-HUB-012",
            "The namespace has no such hub.",
            facts={"namespace": source.namespace, "hub": source.hub},
            fix="correct `hub` of the source, or make the hub",
            runbook="source-unavailable",
        )
    return UnavailableError(
        "TIDE-HUB-010",
        "The event hub does not answer over AMQP.",
        facts={"namespace": source.namespace, "hub": source.hub, "reason": type(error).__name__},
        fix="let this machine reach port 5671 of the namespace; streams use port 9093 and go on",
        runbook="source-unavailable",
    )


def _refused(source: EventHubsSource, reason: str) -> SpecError:
    return SpecError(
        "TIDE-HUB-011",
        "The event hub refuses the login.",
        facts={"namespace": source.namespace, **source.auth.facts, "reason": reason},
        fix="correct the secret that the source names, a connection string; of a login by token, "
        "give its identity the role Azure Event Hubs Data Receiver",
        runbook="source-unavailable",
    )
