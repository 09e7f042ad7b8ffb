from __future__ import annotations

import socket

from tidemill.dev.ports import FREE_PORT_RANGE, LOOPBACK, free_ports, is_free


def test_a_port_that_someone_listens_on_is_taken_until_it_is_closed() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_a_port_that_is_taken_on_all_interfaces_is_taken() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_a_server_that_just_ended_leaves_its_port_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((LOOPBACK, port)):
            connection, _ = server.accept()
            # The side that closes first keeps the port in TIME_WAIT.
            connection.close()
    assert is_free(port)


def test_free_ports_are_different_and_below_those_of_outgoing_connections() -> None:
    ports = free_ports(10)
    assert len(set(ports)) == 10
    assert all(port in FREE_PORT_RANGE for port in ports)
