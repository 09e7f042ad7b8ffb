"""Gives Spark's jars a fixed order on the class path (run once, in the build of the image).

Spark puts `jars/*` there, which Java resolves in the order in which the file system lists it: another one on
another node, and the class archive (class_archive.py) is refused. So the jars move one folder down, and the
only jar left in `jars` names them all in its manifest.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

import pyspark

# Bytes in one line of a manifest, its line break not counted.
LINE_BYTES = 70


def main() -> None:
    """Move the jars and write the one that names them."""
    folder = Path(pyspark.__file__).parent / "jars"
    names = sorted(jar.name for jar in folder.glob("*.jar"))
    (folder / "all").mkdir()
    for name in names:
        (folder / name).rename(folder / "all" / name)
    # Relative names: the class archive understands no others.
    write_class_path(folder / "spark.jar", (f"all/{name}" for name in names))


def write_class_path(jar: Path, names: Iterable[str]) -> None:
    """Write a jar without classes, with these jars on its class path."""
    text = f"Class-Path: {' '.join(names)}"
    lines = ["Manifest-Version: 1.0", text[:LINE_BYTES]]
    rest = text[LINE_BYTES:]
    lines += [f" {rest[at : at + LINE_BYTES - 1]}" for at in range(0, len(rest), LINE_BYTES - 1)]
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), "\r\n".join([*lines, "", ""]))


if __name__ == "__main__":
    main()
