"""The index of tests/support lists every module, so that none is written twice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

SUPPORT = Path(__file__).resolve().parents[1] / "support"


def test_every_module_of_the_tests_support_is_in_its_index_once() -> None:
    index = (SUPPORT / "README.md").read_text()
    named = Counter(re.findall(r"^\| `(\w+)` \| .+ \|$", index, re.MULTILINE))
    assert named == Counter(path.stem for path in SUPPORT.glob("*.py") if path.name != "__init__.py")


def test_every_folder_of_the_tests_support_is_in_its_index() -> None:
    index = (SUPPORT / "README.md").read_text()
    folders = {path.name for path in SUPPORT.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert set(re.findall(r"`(\w+)/`", index)) == folders
