"""Ports of the loopback interface that a server can be started on."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"

# Below Linux' ephemeral ports (32768 and up): the kernel hands those to outgoing connections at any
# moment, also between our look and the server's bind. Above the usual servers (9092, 8080…).
FREE_PORT_RANGE = range(20_000, 32_000)

# Ports tried before giving up. Thousands are free on a healthy machine; 200 misses mean that binding
# itself does not work.
ATTEMPTS = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections of an ended server linger (TIME_WAIT) and are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_ports(count: int) -> tuple[int, ...]:
    """Different free ports, chosen at random so that two starts at once rarely meet.

    Raises:
        OSError: No free ports were found.
    """
    chosen: list[int] = []
    for port in random.sample(FREE_PORT_RANGE, ATTEMPTS):
        if is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return tuple(chosen)
    raise OSError(f"found {len(chosen)} of {count} free ports on {LOOPBACK} in {ATTEMPTS} attempts")
