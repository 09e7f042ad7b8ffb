"""The page of tidemill.testing shows tests of a pipeline that are run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def test_the_page_shows_tests_that_are_run() -> None:
    (shown,) = re.findall(
        r"```python\n(.+?)```", (REPOSITORY / "spark_apps/tidemill/testing/README.md").read_text(), re.DOTALL
    )
    assert shown == (REPOSITORY / "tests/kafka/test_iot_device_windows.py").read_text()
