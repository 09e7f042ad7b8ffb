"""All events that tests have sent to the topic, and the rows that the tables must have as a result.

Events come in eras, each on a separate day. An era ends with one event of the next day, which closes every
window before it, so that what a batch computation finds over the input is what the tables hold.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.support.iot_lake import START, accepted, counts_by_window, take, window_start
from tidemill.dev.iot_events import Event, IotSettings

ERA = timedelta(days=1)

# Time from the event that closes an era to the first event of the next era. It is longer than any lateness
# plus the watermark.
REST = timedelta(hours=2)


@dataclass
class FedEvents:
    """The record of the sent events.

    Args:
        seed: Seed of the first era; each further era has a separate one.
        events: All of them, in order.
        era: Number of the era that is open.
    """

    seed: int
    events: list[Event] = field(default_factory=list)
    era: int = 0

    @property
    def settings(self) -> IotSettings:
        """Return this era's settings: under a day of event time, with late, repeated and broken events."""
        return IotSettings(
            start=self._first_day + REST,
            seed=self.seed + 2 * self.era,
            interval=timedelta(milliseconds=200),
            devices=12,
            late_rate=0.05,
            duplicate_rate=0.05,
            broken_rate=0.02,
        )

    @property
    def closing(self) -> IotSettings:
        """Return the one event that closes the era."""
        return IotSettings(start=self._first_day + ERA, seed=self.seed + 2 * self.era + 1)

    def close(self, sent: int) -> None:
        """Record that this number of the era's events, and the one that closes it, were sent."""
        self.events += [*take(self.settings, sent), *take(self.closing, 1)]
        self.era += 1

    def records(self) -> Counter[str]:
        """Return how often each readable id was sent."""
        return Counter(event.event_id for event in accepted(self.events))

    def windows(self) -> dict[tuple[str, datetime], int]:
        """Return events by window, in all windows that are closed."""
        open_since = window_start(self.events[-1].event_time)
        counts = counts_by_window(self.events)
        return {window: count for window, count in counts.items() if window[1] < open_since}

    @property
    def broken(self) -> int:
        """Return records that cannot be read."""
        return len(self.events) - len(accepted(self.events))

    @property
    def _first_day(self) -> datetime:
        return START + ERA * self.era
