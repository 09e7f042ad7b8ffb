"""Changes to send to each channel since its last notice. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidemill.control.decide.report import Change, Report, changes


class Memory(Report):
    """The last report, and the reports known to channels that could not be notified of it.

    Args:
        behind: The last report that a channel received, by its name; all other channels know the report.
    """

    behind: Mapping[str, Report] = {}

    def known_to(self, channel: str) -> Report:
        """Return the last report that a channel received."""
        return self.behind.get(channel, self)


@dataclass(frozen=True)
class Notice:
    """A notice to a channel.

    Args:
        subject: One line.
        text: Readable text.
        environment: The environment.
        changes: The same as data, one entry for each pipeline.
    """

    subject: str
    text: str
    environment: str
    changes: tuple[Mapping[str, Any], ...]

    def as_document(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "changes": [dict(change) for change in self.changes]}


def news_for(channels: Iterable[str], memory: Memory, report: Report) -> dict[str, list[Change]]:
    """Return the changes that each channel does not know; channels without changes are left out."""
    news = {channel: changes(memory.known_to(channel), report) for channel in channels}
    return {channel: changed for channel, changed in news.items() if changed}


def after_telling(memory: Memory, report: Report, not_told: Collection[str]) -> Memory:
    """Return the state to remember after sending notices.

    Args:
        memory: The previous state.
        report: The new report.
        not_told: Channels that failed; the next notice contains what is new by then.
    """
    behind = {channel: _plain(memory.known_to(channel)) for channel in not_told}
    return Memory(troubles=report.troubles, behind=behind)


def notice_of(changed: Iterable[Change], environment: str) -> Notice:
    """Return the notice of some changes."""
    each = list(changed)
    return Notice(
        subject=f"Tidemill {environment}: {_in_short(each)}",
        text="\n".join(map(str, each)),
        environment=environment,
        changes=tuple(
            {
                "pipeline": change.pipeline,
                "trouble": None if change.trouble is None else change.trouble.model_dump(mode="json"),
            }
            for change in each
        ),
    )


def _in_short(changed: list[Change]) -> str:
    ill = [change.pipeline for change in changed if change.trouble is not None]
    if not ill:
        return f"{_named([change.pipeline for change in changed])} well again"
    return f"{_named(ill)} need{'s' if len(ill) == 1 else ''} a person"


def _named(pipelines: list[str]) -> str:
    return pipelines[0] if len(pipelines) == 1 else f"{len(pipelines)} streams"


def _plain(report: Report) -> Report:
    return Report(troubles=report.troubles)
