"""Identity of the control plane of one machine and run folder, whose processes share locks and records.

The id is derived from a random number stored in the folder, from the machine and from the folder's path. A
copy of the folder, or the same folder mounted on another machine, shares no locks with it, so it is another
control plane.
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
    """Return the identity of a run folder; creates its number the first time."""
    parts = f"{_number(folder)}\n{_machine()}\n{folder}"
    return Identity(hashlib.sha256(parts.encode()).hexdigest()[:DIGITS], str(folder))


def _number(folder: Path) -> str:
    """Return the folder's number; if several callers race, one creates it and all read it complete."""
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
    """Return the machine's id; empty if it has none, as in some containers."""
    try:
        return MACHINE_FILE.read_text(encoding="ascii").strip()
    except OSError:
        return ""
