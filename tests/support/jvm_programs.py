"""The small Java programs of tests/support/jvm, run or compiled on the class path of a driver."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyspark

from tidemill.jars import s3_jars, spark_jars

PROGRAMS = Path(__file__).parent / "jvm"

# They live for a second, most of which would be compiling.
SHORT_LIVED = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def java_program(
    name: str, *arguments: str, path: str | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a program from its source; `path` replaces the PATH on which it finds other programs."""
    own = {**(variables or {}), **({"PATH": path} if path else {})}
    # Found here, because the program's own PATH may have none.
    java = _java_tool("java")
    return subprocess.Popen(
        [java, *SHORT_LIVED, "-cp", _class_path(), str(PROGRAMS / f"{name}.java"), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **own},
    )


def outcome(program: subprocess.Popen[str]) -> str:
    """Wait for the end of a program, and return its output."""
    output, errors = program.communicate()
    assert program.returncode == 0, errors
    return output


def compile_class(name: str, folder: Path) -> Path:
    """Compile a class that a driver loads by its name; the folder, for the driver's class path."""
    source = PROGRAMS / f"{name}.java"
    folder.mkdir(exist_ok=True)
    subprocess.run([_java_tool("javac"), "-cp", _class_path(), "-d", str(folder), str(source)], check=True)
    return folder


def _java_tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(name, path=str(Path(home) / "bin") if home else None) or name


def _class_path() -> str:
    jars = [f"{Path(pyspark.__file__).parent / 'jars'}/*", *map(str, [*spark_jars(), *s3_jars()])]
    return os.pathsep.join(jars)
