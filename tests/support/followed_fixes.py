"""A trouble that really happens, and the command of its error's fix, run as the reader of the error would."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.advised_commands import head
from tests.support.named_commands import command_of, commands_of
from tests.support.patient import Patient
from tests.support.runbook_story import Act
from tidemill.errors import TidemillError

# Fixes by the ids that are seen with them.
Seen = Callable[[Patient], Mapping[str, str]]

_ERROR = re.compile(r"^(?P<id>TIDE-[A-Z0-9]+-\d{3})  .*$(?P<rest>(?:\n  .*$)*)", re.MULTILINE)
_FIX = re.compile(r"^  To fix: (.*)$", re.MULTILINE)
# What the command line adds to the commands of a fix.
_GLOBAL = re.compile(r"(?<=\btidemill )(?:--(?:project|env) \S+ )+")


def gate(patient: Patient) -> dict[str, str]:
    """Ask the gate, as each start does."""
    patient.tidemill("checkpoint", "gate", patient.name, "--json")
    return _fixes(json.loads(patient.tidemill.out)["findings"])


def doctor(patient: Patient) -> dict[str, str]:
    """Ask the doctor about all pipelines."""
    patient.tidemill("checkpoint", "doctor", "--json")
    return _fixes(json.loads(patient.tidemill.out)["findings"])


def asked(*words: str) -> Seen:
    """Run a command that is refused; PIPELINE stands for the pipeline, and so on."""

    def ask(patient: Patient) -> dict[str, str]:
        patient.tidemill(*patient.filled(shlex.join(words)))
        errors = _ERROR.finditer(patient.tidemill.err)
        return {error["id"]: " ".join(_FIX.findall(error["rest"])) for error in errors}

    return ask


def nowhere(_: Patient) -> dict[str, str]:
    """Look for no error: to ask again would be another request."""
    return {}


def raised(call: Callable[[Patient], object]) -> Seen:
    """Call what a driver calls."""

    def seen(patient: Patient) -> dict[str, str]:
        try:
            call(patient)
        except TidemillError as error:
            return {error.error_id: error.fix}
        return {}

    return seen


def nothing(_: Patient) -> None:
    """Leave everything as it is."""


@dataclass(frozen=True)
class Trouble:
    """A fault, and the advice of its error.

    Args:
        error_id: Id that is seen.
        title: What has happened, in a few words.
        ill: Makes it happen.
        command: Name of the command in the fix that is run, such as `checkpoint rewind`.
        seen: Where the error is seen, with its fix.
        first: What the fix asks for before the command.
        values: Values for placeholders of the fix, such as BATCH.
        shows: What the output names, of a command that changes nothing.
        exit_code: How the command ends.
        after: Where the error is looked for afterwards; by default, where it was seen.
        remains: Whether it is seen afterwards as before: the command only secures what there is.
        rows: Rows of the table after one more batch; None if the next batch needs Spark, or none follows.
        over: What must hold in the end; raises if not.
    """

    error_id: str
    title: str
    ill: Act
    command: str
    seen: Seen = gate
    first: Act = nothing
    values: Mapping[str, str] = field(default_factory=dict)
    shows: str = ""
    exit_code: int = 0
    after: Seen | None = None
    remains: bool = False
    rows: Iterable[int] | None = None
    over: Act = nothing

    def follow(self, patient: Patient) -> None:
        """Make it happen, and run the command that its error names."""
        self.ill(patient)
        fixes = self.seen(patient)
        assert self.error_id in fixes, (fixes, patient.tidemill.out, patient.tidemill.err)
        patient.values |= self.values
        self.first(patient)
        before, words = state_of(patient), typed(fixes[self.error_id], self.command, patient.values)
        exit_code = patient.tidemill(*words)
        said = f"{words}\n{patient.tidemill.out}\n{patient.tidemill.err}"
        assert exit_code == self.exit_code, said
        if self.shows:
            assert self.shows in patient.tidemill.out, said
        else:
            assert state_of(patient) != before, said
            left = (self.after or self.seen)(patient)
            assert (self.error_id in left) is self.remains, (left, said)
        if self.rows is not None:
            _goes_on(patient, self.rows)
        assert self.over(patient) is not False


def each(troubles: Sequence[Trouble]) -> pytest.MarkDecorator:
    """A test's troubles."""
    ids = [f"{one.error_id} {one.command}: {one.title}" for one in troubles]
    return pytest.mark.parametrize("trouble", troubles, ids=ids)


def state_of(patient: Patient) -> dict[str, str]:
    """Digest of each file of the storage root."""
    root = Path(patient.drivers.environment.layout.root)
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def typed(fix: str, name: str, values: Mapping[str, str]) -> list[str]:
    """Return the words of the command of this name in a fix, with values for placeholders, as confirmed."""
    named = [command for command in commands_of(_GLOBAL.sub("", fix)) if head(command) == name]
    assert len(named) == 1, f"{name}: {fix}"
    words = [values[word] if word.isupper() or word == "vN" else word for word in shlex.split(named[0])]
    return [*words[1:], *_confirmed(named[0])]


def _confirmed(command: str) -> list[str]:
    """Options by which a person confirms a plan, which the command alone shows."""
    options = {name for option in command_of(command).params for name in option.opts}
    wanted = {"--reason": ["as the fix says"], "--apply": []} if head(command) != "run" else {}
    added = ([name, *text] for name, text in wanted.items() if name in options and name not in command)
    return [word for words in added for word in words]


def _fixes(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {str(one["id"]): str(one["fix"]) for one in found}


def _goes_on(patient: Patient, rows: Iterable[int]) -> None:
    """The next driver is admitted and writes a batch."""
    patient.batches.admit()
    patient.batches.run()
    assert patient.ids() == sorted(rows)
