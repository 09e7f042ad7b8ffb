"""Asking an event hub for its facts, over AMQP (port 5671): needs no consumer group and reads no event."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from azure.eventhub import EventHubConsumerClient
from azure.eventhub.exceptions import AuthenticationError, ConnectError, EventHubError

from tidemill.checkpoint.doctor.hub import HubFacts, HubPartition
from tidemill.errors import InternalError, SpecError, TidemillError, UnavailableError
from tidemill.spec.eventhubs_source import EventHubsSource
from tidemill.spec.project import Pipeline
from tidemill.spec.secret_value import read_secret

# Longest wait for one answer, in seconds. Someone waits at a prompt, and the answer is not needed.
ANSWER_TIMEOUT_SECONDS = 5

# Only events are read by a consumer group. The name is asked for all the same.
_NO_GROUP = "$Default"


def ask_hub(pipeline: Pipeline) -> HubFacts:
    """What the hub of a pipeline says of itself.

    Raises:
        UnavailableError: TIDE-HUB-010, if it does not answer.
        SpecError: TIDE-HUB-011, if the secret is no connection string, or it refuses it; 012, if there is no
            such hub.
    """
    source = pipeline.spec.source.event_hub
    if source is None:
        raise InternalError(
            "TIDE-HUB-019", "A hub was asked for of another source.", facts={"pipeline": pipeline.name}
        )
    client = _client(source, read_secret(pipeline.environment, source.connection_string))
    try:
        with client:
            hub = client.get_eventhub_properties()
            told = [client.get_partition_properties(number) for number in hub["partition_ids"]]
    except (EventHubError, OSError, ValueError) as error:
        # Without its cause: the SDK's messages may quote a token.
        raise _failed(source, error) from None
    return HubFacts(hub["created_at"], {each["id"]: _partition(each) for each in told})


def _client(source: EventHubsSource, connection_string: str) -> EventHubConsumerClient:
    try:
        return EventHubConsumerClient.from_connection_string(
            connection_string,
            _NO_GROUP,
            eventhub_name=source.hub,
            retry_total=0,
            auth_timeout=ANSWER_TIMEOUT_SECONDS,
            socket_timeout=ANSWER_TIMEOUT_SECONDS,
        )
    except ValueError as error:
        # Without its cause, which may quote the secret.
        raise _refused(source, type(error).__name__) from None


def _partition(told: dict[str, Any]) -> HubPartition:
    # Of an empty partition, the last number is the one before the next event's, or -1.
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
        "The event hub refuses the credentials, or they are no connection string.",
        facts={"namespace": source.namespace, "secret": source.connection_string, "reason": reason},
        fix="correct the secret that the source names",
        runbook="source-unavailable",
    )
