"""Send events to an event hub over AMQP, in batches by device, each at least once.

Event Hubs keeps events of one partition key in one partition, and a batch has one key. A batch whose
acknowledgement was lost is sent again, so its events may be in the hub twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.exceptions import AuthenticationError, ConnectError, EventHubError

from tidemill.errors import SpecError, TidemillError, UnavailableError, UsageError

if TYPE_CHECKING:
    from azure.eventhub import EventDataBatch

    from tidemill.dev.iot_events import Event

# Maximum waiting events in all batches together; then all are sent.
BATCHED_EVENTS = 1000

# Maximum seconds for which an event waits for its batch to fill.
LINGER_SECONDS = 0.5

# Maximum seconds to wait for one answer, because a user waits at a prompt.
ANSWER_TIMEOUT_SECONDS = 15

# Number of further attempts to send a batch, and seconds for which each waits for the hub's answer. Without
# this limit the SDK waits forever.
SEND_RETRIES = 3
SEND_TIMEOUT_SECONDS = 60

_FAILURES = (EventHubError, OSError, ValueError)


@dataclass(frozen=True)
class HubTarget:
    """The destination of events.

    Args:
        hub: Name of an event hub that exists.
        secret: Name of the secret, for errors.
        connection_string: Its value, of a policy that may send.
    """

    hub: str
    secret: str
    connection_string: str = field(repr=False)


class HubOutlet:
    """One producer from its first event to its last acknowledgement.

    Raises:
        SpecError: TIDE-HUB-011, if the secret is not a connection string, or the hub rejects it.
        UsageError: TIDE-DEV-007, if there is no such hub.
        UnavailableError: TIDE-DEV-008, if the hub does not answer.
    """

    def __init__(self, target: HubTarget) -> None:
        self._target = target
        self._check()
        self._client = _client(target, SEND_RETRIES)
        self._batches: dict[str, EventDataBatch] = {}
        self._waiting = 0
        self._acknowledged = 0
        self._due = 0.0

    def _check(self) -> None:
        """Check the connection, so that errors are raised at once and before any event is sent."""
        try:
            with _client(self._target, retries=0) as client:
                client.get_eventhub_properties()
        except _FAILURES as error:
            # Without its cause, because the SDK's messages may quote a token.
            raise self._known(error) or self._silent(error) from None

    def send(self, event: Event) -> None:
        """Put an event into the batch of its device; an event without a value has an empty body.

        Raises:
            UnavailableError: TIDE-DEV-011.
        """
        with self._sending():
            self._add(event.key.decode(), EventData(event.value or b""))
        if self._waiting >= BATCHED_EVENTS or time.monotonic() >= self._due:
            self.flush()

    def serve(self, seconds: float) -> None:
        """Wait, and send batches that have waited long enough."""
        if self._waiting and time.monotonic() + seconds >= self._due:
            self.flush()
        time.sleep(seconds)

    def flush(self) -> None:
        """Send all batches and return when every event is acknowledged.

        Raises:
            UnavailableError: TIDE-DEV-011.
        """
        with self._sending():
            while self._batches:
                self._send(next(iter(self._batches)))

    def discard(self) -> None:
        """Drop unsent events and close the connection."""
        self._batches.clear()
        self._client.close()

    def _add(self, key: str, data: EventData) -> None:
        batch = self._batch(key)
        try:
            batch.add(data)
        except ValueError:
            # The batch is full. An event that does not fit into an empty batch is too large for any hub.
            self._send(key)
            self._batch(key).add(data)
        if not self._waiting:
            self._due = time.monotonic() + LINGER_SECONDS
        self._waiting += 1

    def _batch(self, key: str) -> EventDataBatch:
        if key not in self._batches:
            self._batches[key] = self._client.create_batch(partition_key=key)
        return self._batches[key]

    def _send(self, key: str) -> None:
        batch = self._batches[key]
        self._client.send_batch(batch, timeout=SEND_TIMEOUT_SECONDS)
        del self._batches[key]
        self._acknowledged += len(batch)
        self._waiting -= len(batch)

    @contextmanager
    def _sending(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise self._known(error) or self._not_taken(error) from None

    def _known(self, error: Exception) -> TidemillError | None:
        if isinstance(error, AuthenticationError):
            return _refused(self._target, "authentication failed")
        if isinstance(error, ConnectError) and "404" in str(error):
            return UsageError(
                "TIDE-DEV-007",
                "The namespace has no such hub.",
                facts={"hub": self._target.hub},
                fix="name a hub that exists",
            )
        return None

    def _silent(self, error: Exception) -> UnavailableError:
        return UnavailableError(
            "TIDE-DEV-008",
            "The event hub does not answer over AMQP.",
            facts={"hub": self._target.hub, "cause": type(error).__name__},
            fix="let this machine reach port 5671 of the namespace",
        )

    def _not_taken(self, error: Exception) -> UnavailableError:
        return UnavailableError(
            "TIDE-DEV-011",
            "The event hub did not take an event.",
            facts={
                "hub": self._target.hub,
                "cause": type(error).__name__,
                "acknowledged": self._acknowledged,
                "not_acknowledged": self._waiting,
            },
            fix="look at the hub; events that it acknowledged before are in it, others may be",
        )


def _client(target: HubTarget, retries: int) -> EventHubProducerClient:
    try:
        return EventHubProducerClient.from_connection_string(
            target.connection_string,
            eventhub_name=target.hub,
            retry_total=retries,
            auth_timeout=ANSWER_TIMEOUT_SECONDS,
            socket_timeout=ANSWER_TIMEOUT_SECONDS,
        )
    except ValueError as error:
        # Without its cause, which may quote the secret.
        raise _refused(target, type(error).__name__) from None


def _refused(target: HubTarget, reason: str) -> SpecError:
    return SpecError(
        "TIDE-HUB-011",
        "The event hub refuses the credentials, or they are no connection string.",
        facts={"hub": target.hub, "secret": target.secret, "reason": reason},
        fix="correct the secret; its policy must have the right Send",
        runbook="source-unavailable",
    )
