"""Loading the file of a transform."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.declared import declared
from tidemill.engine.transform import load_transform


def test_a_changed_file_is_loaded_anew_though_size_and_time_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deployment may write several files in one second, or give them the same time."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "spark_apps/transforms/orders.py"
    file.parent.mkdir(parents=True)
    pipeline = declared(tmp_path, transform="orders:transform")

    def transform_returning(value: int) -> object:
        file.write_text(f"def transform(orders):\n    return {value}\n")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        return load_transform(pipeline, "orders:transform")(None)

    assert transform_returning(1) == 1
    assert transform_returning(2) == 2
