"""Looks at processes of tests: these start and end within tens of milliseconds, and users' within seconds."""

from __future__ import annotations

from collections.abc import Callable

# Below what a fake driver needs from its start to its first batch; a look costs a millisecond or two.
LOOK_SECONDS = 0.05

# Seconds between two looks at a driver, a part of a verb, or what was asked of a stream.
_BETWEEN_LOOKS = (
    "tidemill.cli.foreground.FOLLOW_SECONDS",
    "tidemill.control.ask.stream_request.POLL_SECONDS",
    "tidemill.control.game_day.backfill_drill.POLL_SECONDS",
    "tidemill.control.spark_part.POLL_SECONDS",
)


def shorten(patch: Callable[[str, object], None]) -> None:
    """Look more often, and wait a tenth of a second for brokers that do not answer."""
    for name in _BETWEEN_LOOKS:
        patch(name, LOOK_SECONDS)
    patch("tidemill.sources.offsets.ANSWER_TIMEOUT_SECONDS", 0.1)
