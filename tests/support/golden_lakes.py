"""Paths and layout of the stored golden checkpoints. This module needs no Spark; `golden.py` makes them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

STORED = Path(__file__).parents[1] / "data" / "checkpoints"


def unpack(name: str, release: str, root: Path) -> Path:
    """Unpack the storage that a release has written into `root`, and return the checkpoint's folder."""
    with tarfile.open(STORED / release / name / "lake.tar.gz") as archive:
        archive.extractall(root, filter="data")
    return root / "state" / name / "g0001"


def expected_rows(name: str, release: str) -> list[str]:
    """Return the rows of the table after the resumed run has read the rest."""
    rows: list[str] = json.loads((STORED / release / name / "expected.json").read_text())
    return rows
