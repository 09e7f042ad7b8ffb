"""Command lines of Kafka's own programs: the storage formatter and the server."""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from tidemill.dev.java import java_tool
from tidemill.errors import InternalError

# MB of Java heap. Measured: 223 MB resident when idle, 266 MB after a million records of 188 bytes.
HEAP_MEGABYTES = 320

# MB of heap for the formatter, which writes two small files.
FORMAT_HEAP_MEGABYTES = 128

# Seconds to format an empty folder; about 1 on an idle machine.
FORMAT_TIMEOUT_SECONDS = 60

_LOGGING = "-Dorg.slf4j.simpleLogger"


def class_path(jars: Sequence[Path]) -> str:
    """Return Java's `-cp` value of these jars."""
    return os.pathsep.join(str(jar) for jar in jars)


def server_command(jars: Sequence[Path], properties: Path) -> list[str]:
    """Return the command of the broker, which writes only warnings and errors to its output."""
    return [
        java_tool("java"),
        "-Xms64m",
        f"-Xmx{HEAP_MEGABYTES}m",
        "-XX:+UseSerialGC",
        # A broker out of memory must end, because otherwise its clients would wait for it.
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={properties.parent}/java_error_%p.log",
        "-Djava.net.preferIPv4Stack=true",
        f"{_LOGGING}.defaultLogLevel=warn",
        f"{_LOGGING}.showDateTime=true",
        f"{_LOGGING}.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
        *("-cp", class_path(jars), "kafka.Kafka", str(properties)),
    ]


def format_storage(jars: Sequence[Path], properties: Path) -> None:
    """Create the empty metadata log and the cluster id that KRaft requires.

    Raises:
        InternalError: TIDE-DEV-006, with Kafka's answer.
    """
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    java = [java_tool("java"), f"-Xmx{FORMAT_HEAP_MEGABYTES}m", "-XX:TieredStopAtLevel=1"]
    # Option and value in one argument, because an id may begin with `-`.
    tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "--config", str(properties)]
    answer = subprocess.run(
        [*java, f"{_LOGGING}.defaultLogLevel=error", "-cp", class_path(jars), *tool],
        capture_output=True,
        text=True,
        timeout=FORMAT_TIMEOUT_SECONDS,
        check=False,
    )
    if answer.returncode != 0:
        raise InternalError(
            "TIDE-DEV-006",
            "Kafka could not format the broker's folder.",
            facts={
                "folder": properties.parent,
                "jars": jars[0].parent,
                "answer": answer.stdout + answer.stderr,
            },
            fix="run `make setup` again for complete jars, or use an empty folder",
        )
