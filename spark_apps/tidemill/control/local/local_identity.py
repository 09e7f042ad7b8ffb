"""Which control plane the processes of one machine are that share a run folder, and so locks and records.

Its id is made of a number drawn once, which lies in the folder, of the machine and of the folder's path: a
copy of the folder, or the same folder seen from another machine, shares no lock with it and is another one.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from tidemill.control.runtime import Identity

FILE = "control-plane.id"
MACHINE_FILE = Path("/etc/machine-id")

# Hex digits of an id, as many as a UUID has.
DIGITS = 32


def local_identity(folder: Path) -> Identity:
    """The identity of a run folder; draws its number the first time."""
    parts = f"{_number(folder)}\n{_machine()}\n{folder}"
    return Identity(hashlib.sha256(parts.encode()).hexdigest()[:DIGITS], str(folder))


def _number(folder: Path) -> str:
    """The folder's number; of racing callers one draws it, all see it whole."""
    file = folder / FILE
    if not file.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        drawn = folder / f".{FILE}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
        drawn.write_text(secrets.token_hex(16), encoding="ascii")
        try:
            os.link(drawn, file)
        except FileExistsError:
            pass
        finally:
            drawn.unlink()
    return file.read_text(encoding="ascii").strip()


def _machine() -> str:
    """The machine's own id; empty where it has none, as some containers."""
    try:
        return MACHINE_FILE.read_text(encoding="ascii").strip()
    except OSError:
        return ""
