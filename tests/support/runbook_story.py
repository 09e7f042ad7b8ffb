"""One case of a runbook page, from the symptom to its end, carried out with the page's own commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.support.eventually import eventually
from tests.support.patient import Patient
from tests.support.runbook_pages import RunbookPage

Act = Callable[[Patient], object]


@dataclass(frozen=True)
class Refused:
    """A command of the page that the platform must refuse here, with this error."""

    command: str
    error: str


@dataclass(frozen=True)
class Warned:
    """A command of the page that ends with 1 because it has found what the page is about."""

    command: str
    shows: str


@dataclass(frozen=True)
class Story:
    """An incident and its fix by a runbook page.

    Args:
        page: Name of the page.
        title: The incident, in a few words.
        ill: Makes it happen.
        errors: Ids that are seen before, and not after.
        steps: Commands of the page, verbatim, and manual acts between them.
        seen: Function that shows the error ids; by default, the gate refuses with them.
        over: Check after the page's own last commands; raises or returns False if it fails.
        goes_on: True if a driver must have written a batch after the steps.
        by_hand: Further ids that its acts cause and check themselves.
    """

    page: str
    title: str
    ill: Act
    errors: tuple[str, ...] = ()
    steps: Sequence[str | Refused | Warned | Act] = ()
    seen: Callable[[Patient], object] | None = None
    over: Act | None = None
    goes_on: bool = True
    by_hand: tuple[str, ...] = ()

    @property
    def commands(self) -> list[str]:
        """Commands of the page that it runs."""
        typed = (step.command if isinstance(step, Refused | Warned) else step for step in self.steps)
        return [step for step in typed if isinstance(step, str)]

    @property
    def shown(self) -> frozenset[str]:
        """Return ids that it brings about."""
        refused = (step.error for step in self.steps if isinstance(step, Refused))
        warned = (
            step.shows for step in self.steps if isinstance(step, Warned) and step.shows.startswith("TIDE-")
        )
        return frozenset([*self.errors, *refused, *warned, *self.by_hand])


def each_story(stories: Sequence[Story]) -> pytest.MarkDecorator:
    """Parametrize a test with stories: the first of each page in `make test`, all in the soak."""
    first = {story.page: story for story in reversed(stories)}
    cases = [
        pytest.param(
            story,
            id=f"{story.page}: {story.title}",
            marks=() if story is first[story.page] else pytest.mark.soak,
        )
        for story in stories
    ]
    return pytest.mark.parametrize("story", cases)


@dataclass
class Told:
    """Carries a story out."""

    story: Story
    page: RunbookPage
    patient: Patient

    def tell(self) -> None:
        """Run the symptom, the treatment and the end of the page."""
        self.story.ill(self.patient)
        seen = self.story.seen or Patient.findings
        told = _ids(seen(self.patient))
        assert set(self.story.errors) <= set(told), (told, self.patient.tidemill.out)
        for step in self.story.steps:
            self._do(step)
        assert not set(self.story.errors) & set(_ids(seen(self.patient)))
        self._end()
        if self.story.over is not None:
            assert self.story.over(self.patient) is not False

    def _do(self, step: str | Refused | Warned | Act) -> None:
        tidemill = self.patient.tidemill
        if isinstance(step, str):
            assert self.patient.run(step) == 0, f"{step}\n{tidemill.out}{tidemill.err}"
        elif isinstance(step, Refused):
            assert self.patient.run(step.command) in (1, 2), step
            # Steps that were done before are reported first.
            assert any(line.startswith(step.error) for line in tidemill.err.splitlines()), tidemill.err
        elif isinstance(step, Warned):
            assert self.patient.run(step.command) == 1, tidemill.err
            assert step.shows in tidemill.out
        else:
            step(self.patient)

    def _end(self) -> None:
        """Run the page's last commands: the gate passes, a batch follows, and the ledger shows it."""
        for command in self.page.over:
            if command.startswith("tidemill ledger") and self.story.goes_on:
                self._goes_on()
            self._do(command)

    def _goes_on(self) -> None:
        """Check that the driver that the page's commands started, or let continue, has written a batch."""
        running = self.patient.plane.running(self.patient.name)
        assert running is not None, "no command of the page starts the stream"
        eventually(lambda: self.patient.status()["actual"] == "running", "the driver goes on")
        assert running.run_id in {entry["run_id"] for entry in self.patient.commits()}


def _ids(seen: object) -> list[str]:
    return [str(name) for name in seen] if isinstance(seen, dict | list | set | tuple) else []
