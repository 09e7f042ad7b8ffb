"""The tests in the README of tidemill.testing are run exactly as they are shown."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def test_the_page_shows_tests_that_are_run() -> None:
    (shown,) = re.findall(
        r"```python\n(.+?)```", (REPOSITORY / "spark_apps/tidemill/testing/README.md").read_text(), re.DOTALL
    )
    assert shown == (REPOSITORY / "tests/kafka/test_iot_device_windows.py").read_text()
