"""Paths of Java's programs on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tidemill.errors import UsageError


def java_tool(name: str) -> str:
    """Return the absolute path of `java`, `keytool`…: below JAVA_HOME if that is set, else on PATH.

    Raises:
        UsageError: TIDE-DEV-001, if there is none.
    """
    java_home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(java_home) / "bin") if java_home else None)
    if found is None:
        raise UsageError(
            "TIDE-DEV-001",
            f"Java's {name} was not found.",
            facts={"JAVA_HOME": java_home or "(not set)", "PATH": os.environ.get("PATH", "")},
            fix="install Java 17 or 21 (Debian, Ubuntu: sudo apt-get install openjdk-17-jdk-headless)",
        )
    return str(Path(found).absolute())
