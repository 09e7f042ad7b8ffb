"""An Airflow notifier, like that of a deployment's chat, which writes notifications to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier

NEWS_VARIABLE = "TIDEMILL_TEST_NEWS"


class NewsFile(BaseNotifier):
    """Appends its text to the file that `NEWS_VARIABLE` names.

    Args:
        text: A template.
    """

    template_fields = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        with Path(os.environ[NEWS_VARIABLE]).open("a", encoding="utf-8") as file:
            file.write(f"{self.text}\n--\n")


notifier = NewsFile("{{ tidemill.text }}")


def fails(_context: Any) -> None:
    """Fail like a notifier whose chat is unavailable."""
    raise ConnectionError("nobody is there")
