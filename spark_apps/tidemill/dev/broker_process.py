"""Record of the broker in a folder: written at its start, read by later processes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tidemill.control.local.process_identity import ProcessIdentity
from tidemill.dev.broker_config import PLAINTEXT
from tidemill.errors import UsageError

RECORD_VERSION = 1


@dataclass(frozen=True)
class BrokerProcess:
    """A broker that was started, perhaps by another process.

    Args:
        data_dir: Its folder.
        identity: Its process.
        listeners: `host:port` by security protocol (`PLAINTEXT`, `SASL_PLAINTEXT`, `SASL_SSL`).
    """

    data_dir: Path
    identity: ProcessIdentity
    listeners: Mapping[str, str]

    @property
    def bootstrap_servers(self) -> str:
        """Return the address of the PLAINTEXT listener."""
        return self.listeners[PLAINTEXT]

    @property
    def pid(self) -> int:
        """Return the process id for display; signals go through `identity`."""
        return self.identity.pid

    @property
    def log(self) -> Path:
        """Return the file with the broker's output."""
        return broker_log(self.data_dir)


def broker_log(data_dir: Path) -> Path:
    """Return the log of the broker of this folder; one file for all its starts."""
    return data_dir / "broker.log"


def find_broker(data_dir: Path) -> BrokerProcess | None:
    """Return the broker that runs in this folder, started by any process, or None.

    Raises:
        UsageError: TIDE-DEV-005, if the record of the process cannot be read.
    """
    broker = last_broker(data_dir)
    return broker if broker is not None and broker.identity.is_alive() else None


def last_broker(data_dir: Path) -> BrokerProcess | None:
    """Return the broker that was last started in this folder, running or not, or None."""
    file = _record_file(data_dir)
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        return BrokerProcess(data_dir, ProcessIdentity(**record["process"]), record["listeners"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "TIDE-DEV-005",
            "The record of the broker's process cannot be read.",
            facts={"file": file, "cause": repr(error)},
            fix="end the broker by hand if one runs there, then delete the file; no topic is lost by that",
        ) from error


def record_broker(broker: BrokerProcess) -> None:
    """Write the record of the broker into its folder."""
    record = {
        "v": RECORD_VERSION,
        "process": asdict(broker.identity),
        "listeners": dict(broker.listeners),
    }
    write_private(_record_file(broker.data_dir), json.dumps(record, indent=2) + "\n")


def write_private(file: Path, text: str) -> None:
    """Write a file atomically, readable for its owner only."""
    new = file.with_name(f".{file.name}.tmp")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)
    new.replace(file)


def _record_file(data_dir: Path) -> Path:
    return data_dir / "broker.json"
