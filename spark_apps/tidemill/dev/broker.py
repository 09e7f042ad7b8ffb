"""A real single-node Kafka broker (KRaft) on the loopback interface, from Maven's jars.

It runs as a detached process. `start_broker` returns once it answers. Any later process finds it with
`find_broker` and ends it with `stop_broker`. Its folder:

    server.properties   its configuration (may contain a password, so readable by the owner only)
    records/            the topics; kept from start to start
    broker.json         its process and listeners
    broker.log          its output
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tidemill.control.local.process_identity import POLL_SECONDS, start_detached
from tidemill.dev.broker_command import format_storage, server_command
from tidemill.dev.broker_config import CONTROLLER, PLAINTEXT, BrokerConfig, server_properties
from tidemill.dev.broker_process import (
    BrokerProcess,
    broker_log,
    find_broker,
    last_broker,
    record_broker,
    write_private,
)
from tidemill.dev.ports import LOOPBACK, free_ports, is_free
from tidemill.errors import UnavailableError, UsageError
from tidemill.jars import broker_jars

# Seconds from the start of the process to its first answer. Measured 3 s on two idle cores; a machine that
# also runs Spark takes several times that.
START_TIMEOUT_SECONDS = 90

# Seconds for one metadata request while the broker starts.
METADATA_TIMEOUT_SECONDS = 1.0

# Seconds for the broker to close its files after SIGTERM. Measured up to 2.5 s. Records survive SIGKILL as
# well; the next start then checks the open segments first.
STOP_TIMEOUT_SECONDS = 30

# Seconds between two checks of a foreground broker's process, which limit the delay until its death is
# reported.
WATCH_SECONDS = 0.5

# Bytes read and lines shown from the end of broker.log after a failure. Between the cause and the end Kafka
# reports how it closes resources: about ten lines without stack frames, 20 KB with them.
READ_LOG_BYTES = 200_000
SHOWN_LOG_LINES = 25


def start_broker(config: BrokerConfig) -> BrokerProcess:
    """Start a broker and return when it has answered a metadata request.

    1. Allow only one start at a time in a folder. 2. Record the process before waiting for it, so that
    `find_broker` sees it if this process dies. 3. If the broker does not start, kill it before raising the
    error.

    Raises:
        UsageError: TIDE-DEV-001 no Java, TIDE-DEV-002 port taken, TIDE-DEV-003 a broker runs here already.
        UnavailableError: TIDE-DEV-004, if it ended or did not answer; shows the end of its log.
    """
    config.data_dir.mkdir(parents=True, exist_ok=True)
    with _only_start(config.data_dir):  # 1
        log_start = _size(broker_log(config.data_dir))
        broker = _launch(config, _choose_ports(config))  # 2
    try:
        _wait_until_it_answers(broker, log_start)
    except BaseException:
        kill_broker(broker)  # 3
        raise
    return broker


def stop_broker(broker: BrokerProcess, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> bool:
    """End the broker; True if it closed its files itself, False if it was killed or had ended before."""
    asked = broker.identity.signal(signal.SIGTERM)
    # A suspended process (SIGSTOP, CTRL-Z) would not receive it otherwise.
    broker.identity.signal(signal.SIGCONT)
    closed = asked and broker.identity.wait_until_gone(timeout_seconds)
    kill_broker(broker)
    return closed


def kill_broker(broker: BrokerProcess) -> None:
    """Kill the broker at once, as in a crash; do nothing if it has ended."""
    broker.identity.signal(signal.SIGKILL)
    broker.identity.wait_until_gone(STOP_TIMEOUT_SECONDS)
    broker.identity.reap()


@contextlib.contextmanager
def running_broker(config: BrokerConfig) -> Iterator[BrokerProcess]:
    """Yield a broker that is ended after the block, even if it was restarted in the same folder."""
    broker = start_broker(config)
    try:
        yield broker
    finally:
        stop_broker(find_broker(config.data_dir) or broker)


def serve_broker(
    config: BrokerConfig, stop: threading.Event, on_ready: Callable[[BrokerProcess], object]
) -> None:
    """Run a broker in the foreground until `stop` is set.

    Raises:
        UnavailableError: TIDE-DEV-004, if the broker ends before.
    """
    with running_broker(config) as broker:
        log_start = _size(broker.log)
        on_ready(broker)
        while not stop.wait(WATCH_SECONDS):
            if not broker.identity.is_alive():
                raise _broker_failed(broker, "the process ended", log_start)


@contextlib.contextmanager
def _only_start(data_dir: Path) -> Iterator[None]:
    with (data_dir / "broker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = find_broker(data_dir)
        if running is not None:
            raise UsageError(
                "TIDE-DEV-003",
                "A broker already runs in this folder.",
                facts={
                    "folder": data_dir,
                    "pid": running.pid,
                    "bootstrap_servers": running.bootstrap_servers,
                },
                fix="use it, stop it, or name another folder",
            )
        yield


def _choose_ports(config: BrokerConfig) -> dict[str, int]:
    """Return a port for every listener: the given one, else the last one if it is free, else any free one."""
    if config.port and not is_free(config.port):
        raise UsageError(
            "TIDE-DEV-002",
            "The broker's port is taken.",
            facts={"port": config.port, "address": LOOPBACK},
            fix="stop what listens there, or name another port; port 0 takes a free one",
        )
    given = {PLAINTEXT: config.port} if config.port else {}
    last = {name: port for name, port in _last_ports(config.data_dir).items() if is_free(port)}
    fresh = dict(zip(config.listeners, free_ports(len(config.listeners)), strict=True))
    chosen = {**fresh, **last, **given}
    return {name: chosen[name] for name in config.listeners}


def _last_ports(data_dir: Path) -> dict[str, int]:
    last = last_broker(data_dir)
    listeners = last.listeners if last is not None else {}
    return {name: int(address.rpartition(":")[2]) for name, address in listeners.items()}


def _launch(config: BrokerConfig, ports: Mapping[str, int]) -> BrokerProcess:
    folder = config.data_dir.absolute()
    properties = folder / "server.properties"
    jars = broker_jars()
    write_private(properties, server_properties(config, ports))
    if not _meta_properties(folder).exists():
        format_storage(jars, properties)
    identity = start_detached(server_command(jars, properties), broker_log(folder))
    listeners = {name: f"{LOOPBACK}:{port}" for name, port in ports.items() if name != CONTROLLER}
    broker = BrokerProcess(folder, identity, listeners)
    try:
        record_broker(broker)
    except BaseException:
        # No other process could find it again.
        kill_broker(broker)
        raise
    return broker


def _wait_until_it_answers(broker: BrokerProcess, log_start: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    answers = _metadata_probe(broker)
    while not answers():
        if not broker.identity.is_alive():
            raise _broker_failed(broker, "the process ended", log_start)
        if time.monotonic() > deadline:
            raise _broker_failed(broker, f"no answer in {START_TIMEOUT_SECONDS} s", log_start)
        time.sleep(POLL_SECONDS)


def _metadata_probe(broker: BrokerProcess) -> Callable[[], bool]:
    # Imported here, so that `tidemill --help` does not load a C library.
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # Refused connections are normal while the broker starts, so librdkafka must not print them.
    quiet = logging.getLogger(f"{__name__}.starting")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers}, logger=quiet)
    cluster_id = _cluster_id(broker.data_dir)

    def answers() -> bool:
        try:
            metadata = client.list_topics(timeout=METADATA_TIMEOUT_SECONDS)
        except KafkaException:
            return False
        # Another broker may have taken the port since it was checked; then this one is about to end.
        return bool(metadata.brokers) and metadata.cluster_id == cluster_id

    return answers


def _broker_failed(broker: BrokerProcess, what: str, log_start: int) -> UnavailableError:
    return UnavailableError(
        "TIDE-DEV-004",
        "The Kafka broker does not run.",
        facts={
            "cause": what,
            "pid": broker.pid,
            "log": broker.log,
            "log_end": _end_of_log(broker.log, log_start),
        },
        fix="the end of its log says why",
    )


def _end_of_log(log: Path, start: int) -> str:
    with log.open("rb") as text:
        text.seek(max(start, _size(log) - READ_LOG_BYTES))
        lines = text.read().decode("utf-8", "replace").splitlines()
    said = [line for line in lines if not line.startswith("\tat ")]
    return "\n    ".join(["", *said[-SHOWN_LOG_LINES:]])


def _meta_properties(data_dir: Path) -> Path:
    return data_dir / "records" / "meta.properties"


def _cluster_id(data_dir: Path) -> str:
    lines = _meta_properties(data_dir).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["cluster.id"]


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
