"""Prints the time that the doctor takes for 1,000 pipelines on a local disk. The limit is 30 s.

Each has a checkpoint of some 400 files, what Spark leaves of 100 batches on a local disk, and a table of 60
commits, so that the gate's look back into the ledger is a full one.

Run: make bench-doctor
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.support.clinic import Clinic
from tests.support.conf_project import ConfProject

PIPELINES = 1_000
FILES = 300
COMMITS = 60
LIMIT_SECONDS = 30.0

# Names of one length, so that a copy is a replacement of bytes.
FIRST = "p0000"


def first_pipeline(clinic: Clinic) -> None:
    """Write one complete pipeline. Extra files in place of twins and older batches are listed, not read."""
    checkpoint = clinic.healthy(FIRST, COMMITS)
    for folder in ("offsets", "commits"):
        for spare in range(FILES // 2):
            (checkpoint / folder / f".{spare}.spare.crc").write_bytes(b"crc")


def copy_pipeline(clinic: Clinic, name: str) -> None:
    """Add a copy of the first pipeline: files that contain its name are rewritten, the others are links."""
    clinic.declare(name)
    layout = clinic.project.load().layout
    pairs = (
        (layout.state(FIRST), layout.state(name)),
        (layout.table(f"bronze/{FIRST}"), layout.table(f"bronze/{name}")),
    )
    for source, target in pairs:
        shutil.copytree(source, target, copy_function=lambda a, b: copy_file(Path(a), Path(b), name))


def copy_file(source: Path, target: Path, name: str) -> None:
    content = source.read_bytes()
    if source.name == "metadata":
        target.write_bytes(content.replace(b'{"id": "', b'{"id": "' + name.encode()))
    elif FIRST.encode() in content:
        query = content.replace(b'query_id\\":\\"', b'query_id\\":\\"' + name.encode())
        target.write_bytes(query.replace(FIRST.encode(), name.encode()))
    else:
        os.link(source, target)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        clinic = Clinic(ConfProject(Path(folder)))
        (Path(folder) / "conf/pipelines/orders.yaml").unlink()
        started = time.monotonic()
        first_pipeline(clinic)
        for number in range(1, PIPELINES):
            copy_pipeline(clinic, f"p{number:04}")
        print(f"made {PIPELINES} pipelines in {time.monotonic() - started:.1f} s", flush=True)
        started = time.monotonic()
        found = clinic.examine()
        seconds = time.monotonic() - started
    by_id: dict[str, int] = {}
    for finding in found.findings:
        by_id[finding.finding_id] = by_id.get(finding.finding_id, 0) + 1
    print(
        f"doctor: {found.pipelines} pipelines in {seconds:.1f} s (limit {LIMIT_SECONDS:.0f}), found {by_id}"
    )
    return int(seconds > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
