"""An event hub on loopback for the azure-eventhub client: logins at `$cbs`, queries at `$management`,
events to the hub itself.

Protocol and frames are Qpid Proton's. It leaves out nulls at the end of a list, as AMQP allows and the
SDK does not: it reads fields by fixed places, so each list is filled up on its way out.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from azure.eventhub import _client_base
from proton import (
    Collector,
    Condition,
    Connection,
    Data,
    Delivery,
    Described,
    Event,
    Message,
    ProtonException,
    Transport,
    symbol,
    timestamp,
)

# Seconds between two looks of the SDK at its connection, for a peer that answers within a millisecond.
_LOOK_SECONDS = 0.002

# Fields of each performative, by its descriptor (AMQP 1.0, 2.7).
_FIELDS = {0x10: 10, 0x11: 8, 0x12: 14, 0x13: 11, 0x14: 11, 0x15: 6, 0x16: 3, 0x17: 1, 0x18: 1}
# Sections of a message, by their descriptors (AMQP 1.0, 3.2).
_ANNOTATIONS, _DATA = 0x72, 0x75
_HUB, _PARTITION = "com.microsoft:eventhub", "com.microsoft:partition"


@dataclass
class PeerPartition:
    """Facts of one partition."""

    beginning: int = 0
    last: int = -1
    last_enqueued: datetime = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class HubFactsPeer:
    """An event hub's facts.

    Args:
        hub: Name of the hub.
        partitions: Partitions of the hub.
        created: Time of its creation.
        refuses: True to refuse every token.
        tokens: Received tokens, newest last.
        tls: Encrypts connections, as Azure does; plain ones are for the SDK's emulator.
        batches: Received batches: partition key and bodies of each.
        takes: Number of batches that it accepts before it rejects them.
        largest: Bytes of the largest batch.
    """

    hub: str = "readings"
    partitions: dict[str, PeerPartition] = field(default_factory=dict)
    created: datetime = datetime(2025, 6, 1, tzinfo=UTC)
    refuses: bool = False
    tokens: list[str] = field(default_factory=list)
    batches: list[tuple[str | None, list[bytes]]] = field(default_factory=list)
    takes: int = 1_000_000
    largest: int = 1 << 20
    port: int = 0
    tls: ssl.SSLContext | None = None

    @property
    def connection_string(self) -> str:
        """Return the connection string for the SDK: plain AMQP at this port."""
        return (
            f"Endpoint=sb://127.0.0.1:{self.port};SharedAccessKeyName=test;SharedAccessKey=canary-key;"
            "UseDevelopmentEmulator=true"
        )

    @contextmanager
    def listening(self) -> Iterator[HubFactsPeer]:
        """Answer until the block ends."""
        with socket.create_server(("127.0.0.1", 0)) as server, _without_pauses():
            self.port = server.getsockname()[1]
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
            yield self
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        with suppress(OSError):
            _Conversation(self, self.tls.wrap_socket(client, server_side=True) if self.tls else client).run()

    def answer(self, request: Message) -> Message:
        """Return the answer of `$cbs` or `$management`."""
        properties: Mapping[str, Any] = request.properties
        if properties.get("operation") == "put-token":
            self.tokens.append(str(request.body))
            code = 401 if self.refuses else 202
            return _reply(
                request,
                {"status-code": code, "status-description": "Unauthorized" if code == 401 else "Accepted"},
            )
        partition = self.partitions.get(str(properties.get("partition")))
        if properties.get("name") != self.hub or (properties["type"] == _PARTITION and partition is None):
            return _reply(
                request,
                {"status-code": 404, "status-description": "The messaging entity could not be found."},
            )
        body = self._of_hub() if partition is None else self._of(str(properties["partition"]), partition)
        return _reply(request, {"status-code": 200, "status-description": "OK"}, body)

    def take(self, content: bytes) -> bool:
        """Keep a batch of events, unless it is one too many."""
        if len(self.batches) >= self.takes:
            return False
        key, bodies = None, []
        for section, value in _sections(content):
            if section == _ANNOTATIONS:
                key = value.get("x-opt-partition-key")
            elif section == _DATA:
                # Each is a whole message.
                bodies += [bytes(body) for inner, body in _sections(value) if inner == _DATA]
        self.batches.append((key, bodies))
        return True

    def _of_hub(self) -> dict[str, Any]:
        return {
            "name": self.hub,
            "type": _HUB,
            "created_at": _milliseconds(self.created),
            "partition_count": len(self.partitions),
            "partition_ids": list(self.partitions),
        }

    def _of(self, number: str, partition: PeerPartition) -> dict[str, Any]:
        return {
            "name": self.hub,
            "type": _PARTITION,
            "partition": number,
            "begin_sequence_number": partition.beginning,
            "last_enqueued_sequence_number": partition.last,
            "last_enqueued_offset": str(partition.last * 100),
            "last_enqueued_time_utc": _milliseconds(partition.last_enqueued),
            "is_partition_empty": partition.last < partition.beginning,
        }


class _Conversation:
    """One connection."""

    def __init__(self, peer: HubFactsPeer, client: socket.socket) -> None:
        self._peer, self._client = peer, client
        self._collector = Collector()
        connection = Connection()
        connection.collect(self._collector)
        self._transport = Transport(Transport.SERVER)
        # Without this, the SDK never sends a heartbeat, and waits for one.
        self._transport.idle_timeout = 60.0
        self._transport.sasl().allowed_mechs("ANONYMOUS EXTERNAL MSSBCBS")
        self._transport.bind(connection)
        self._frames = _FilledFrames()
        # Senders of answers, by the name of the link's source.
        self._senders: dict[str, Any] = {}

    def run(self) -> None:
        # A client that goes in the middle of a frame is no failure of the test.
        with self._client, suppress(OSError, ProtonException):
            while not self._transport.closed:
                self._flush()
                # No more than Proton has room for.
                content = self._client.recv(max(1, self._transport.capacity()))
                if not content:
                    return
                self._transport.push(content)
                while (event := self._collector.peek()) is not None:
                    self._on(event)
                    self._collector.pop()

    def _flush(self) -> None:
        while (size := self._transport.pending()) > 0:
            content = self._transport.peek(size)
            self._transport.pop(size)
            self._client.sendall(self._frames.fill(content))

    def _on(self, event: Event) -> None:
        kind = event.type
        if kind == Event.CONNECTION_REMOTE_OPEN:
            event.connection.container = "hub"
            event.connection.open()
        elif kind == Event.SESSION_REMOTE_OPEN:
            event.session.open()
        elif kind == Event.LINK_REMOTE_OPEN:
            self._open(event.link)
        elif kind in (Event.LINK_REMOTE_CLOSE, Event.SESSION_REMOTE_CLOSE, Event.CONNECTION_REMOTE_CLOSE):
            event.context.close()
        elif kind == Event.DELIVERY and event.link.is_receiver and not event.delivery.partial:
            self._answer(event.link, event.delivery)

    def _open(self, link: Any) -> None:
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.max_message_size = self._peer.largest
        link.open()
        if link.is_sender:
            self._senders[link.source.address] = link
        else:
            link.flow(100)

    def _answer(self, link: Any, delivery: Delivery) -> None:
        content = link.recv(delivery.pending)
        link.advance()
        if link.target.address.endswith(f"/{self._peer.hub}"):
            taken = self._peer.take(content)
            if not taken:
                # Send all three parts, because nulls inside of a frame are not filled in.
                info = {symbol("hub"): self._peer.hub}
                delivery.local.condition = Condition("amqp:not-allowed", "no more", info)
            delivery.update(Delivery.ACCEPTED if taken else Delivery.REJECTED)
            delivery.settle()
            link.flow(1)
            return
        request = Message()
        request.decode(content)
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        link.flow(1)
        sender = self._senders[link.target.address]
        sender.delivery(str(request.id))
        sender.send(self._peer.answer(request).encode())
        sender.advance()


def _sections(content: bytes) -> Iterator[tuple[int, Any]]:
    """Sections of a message: what each is, and its value."""
    while content:
        data = Data()
        content = content[data.decode(content) :]
        data.rewind()
        data.next()
        section: Described = data.get_object()
        yield int(section.descriptor), section.value


class _FilledFrames:
    """Frames on their way out, cut out of the bytes that Proton gives."""

    def __init__(self) -> None:
        self._waiting = b""

    def fill(self, content: bytes) -> bytes:
        """Return the frames that are complete."""
        self._waiting += content
        out = b""
        while len(self._waiting) >= 8:
            size = 8 if self._waiting[:4] == b"AMQP" else int.from_bytes(self._waiting[:4])
            if len(self._waiting) < size:
                break
            frame, self._waiting = self._waiting[:size], self._waiting[size:]
            out += _filled(frame)
        return out


def _filled(frame: bytes) -> bytes:
    """Return a frame whose list has all fields of its performative."""
    if frame[:4] == b"AMQP" or frame[5] != 0 or len(frame) <= 8:
        return frame
    at = frame[4] * 4
    wanted = _FIELDS[frame[at + 2]]
    kind, body = frame[at + 3], at + 4
    if kind == 0x45:
        count, fields, rest = 0, b"", frame[body:]
    else:
        width = 1 if kind == 0xC0 else 4
        size = int.from_bytes(frame[body : body + width])
        count = int.from_bytes(frame[body + width : body + 2 * width])
        fields, rest = frame[body + 2 * width : body + width + size], frame[body + width + size :]
    fields += b"\x40" * (wanted - count)
    whole = (
        frame[4 : at + 3]
        + b"\xd0"
        + (len(fields) + 4).to_bytes(4)
        + max(wanted, count).to_bytes(4)
        + fields
        + rest
    )
    return (len(whole) + 4).to_bytes(4) + whole


def _reply(request: Message, properties: dict[str, Any], body: object = None) -> Message:
    return Message(body=body, properties=properties, correlation_id=request.id)


def _milliseconds(moment: datetime) -> Any:
    return timestamp(int(moment.timestamp() * 1000))


@contextmanager
def _without_pauses() -> Iterator[None]:
    """The SDK looks for the next frame after 50 ms, ten times for each question."""
    clock = SimpleNamespace(**{**vars(time), "sleep": lambda _: time.sleep(_LOOK_SECONDS)})
    with patch.object(_client_base, "time", clock):
        yield
