"""Free ports of the loopback interface for servers."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"

# Below Linux' ephemeral ports (32768 and up), which the kernel assigns to outgoing connections at any moment,
# even between the check and the server's bind. Above the usual servers (9092, 8080…).
FREE_PORT_RANGE = range(20_000, 32_000)

# Number of ports to try before giving up. Thousands are free on a healthy machine; 200 misses mean that
# binding itself does not work.
ATTEMPTS = 200


def is_free(port: int) -> bool:
    """Return True if a server could listen on this port of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Set the option that servers set: lingering connections of an ended server (TIME_WAIT) do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_ports(count: int) -> tuple[int, ...]:
    """Return different free ports, chosen at random so that two parallel starts rarely choose the same.

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
