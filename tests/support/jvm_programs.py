"""Runs the small Java programs of tests/support/jvm on the class path of a driver."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pyspark

from tidemill.jars import s3_jars, spark_jars

PROGRAMS = Path(__file__).parent / "jvm"


def java_program(name: str, *arguments: str, path: str | None = None) -> subprocess.Popen[str]:
    """Start a program from its source; `path` replaces the PATH on which it finds other programs."""
    home = os.environ.get("JAVA_HOME")
    # Found here, because the program's own PATH may have none.
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None) or "java"
    class_path = [f"{Path(pyspark.__file__).parent / 'jars'}/*", *map(str, [*spark_jars(), *s3_jars()])]
    return subprocess.Popen(
        [java, "-Xmx256m", "-cp", os.pathsep.join(class_path), str(PROGRAMS / f"{name}.java"), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": path} if path else None,
    )


def outcome(program: subprocess.Popen[str]) -> str:
    """What a program printed until its end."""
    output, errors = program.communicate()
    assert program.returncode == 0, errors
    return output
