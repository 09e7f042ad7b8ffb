"""Short polling intervals for tests, whose processes start and end within tens of milliseconds."""

from __future__ import annotations

from collections.abc import Callable

# Shorter than a fake driver's time from its start to its first batch; a check costs a millisecond or two.
LOOK_SECONDS = 0.05

# Polling intervals for a driver, a part of an operation, or a request to a stream, in seconds.
_BETWEEN_LOOKS = (
    "tidemill.cli.foreground.FOLLOW_SECONDS",
    "tidemill.control.ask.stream_request.POLL_SECONDS",
    "tidemill.control.game_day.backfill_drill.POLL_SECONDS",
    "tidemill.control.spark_part.POLL_SECONDS",
)


def shorten(patch: Callable[[str, object], None]) -> None:
    """Poll more often, and wait only a tenth of a second for brokers that do not answer."""
    for name in _BETWEEN_LOOKS:
        patch(name, LOOK_SECONDS)
    patch("tidemill.sources.offsets.ANSWER_TIMEOUT_SECONDS", 0.1)
