"""A real problem, and the command of its error's fix, run as the reader of the error would run it."""

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

# Returns the fixes by error id.
Seen = Callable[[Patient], Mapping[str, str]]

_ERROR = re.compile(r"^(?P<id>TIDE-[A-Z0-9]+-\d{3})  .*$(?P<rest>(?:\n  .*$)*)", re.MULTILINE)
_FIX = re.compile(r"^  To fix: (.*)$", re.MULTILINE)
# Options that the command line adds to the commands of a fix.
_GLOBAL = re.compile(r"(?<=\btidemill )(?:--(?:project|env) \S+ )+")


def gate(patient: Patient) -> dict[str, str]:
    """Run the gate, as each start does."""
    patient.tidemill("checkpoint", "gate", patient.name, "--json")
    return _fixes(json.loads(patient.tidemill.out)["findings"])


def doctor(patient: Patient) -> dict[str, str]:
    """Run the doctor for all pipelines."""
    patient.tidemill("checkpoint", "doctor", "--json")
    return _fixes(json.loads(patient.tidemill.out)["findings"])


def asked(*words: str) -> Seen:
    """Return a function that runs a command that is refused; placeholders such as PIPELINE are filled."""

    def ask(patient: Patient) -> dict[str, str]:
        patient.tidemill(*patient.filled(shlex.join(words)))
        errors = _ERROR.finditer(patient.tidemill.err)
        return {error["id"]: " ".join(_FIX.findall(error["rest"])) for error in errors}

    return ask


def nowhere(_: Patient) -> dict[str, str]:
    """Look for no error, because repeating the request would be another request."""
    return {}


def raised(call: Callable[[Patient], object]) -> Seen:
    """Return a function that makes a call of a driver, and returns its error."""

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
    """A problem, and the advice of its error.

    Args:
        error_id: Expected error id.
        title: A few words about the problem.
        ill: Causes the problem.
        command: Name of the command in the fix that is run, such as `checkpoint rewind`.
        seen: Returns the error, with its fix.
        first: Steps that the fix requires before the command.
        values: Values for placeholders of the fix, such as BATCH.
        shows: Expected text in the output of a command that changes nothing.
        exit_code: Expected exit code of the command.
        after: Returns the remaining errors afterwards; by default the same as `seen`.
        remains: True if the error remains, because the command only secures the existing data.
        rows: Rows of the table after one more batch; None if the next batch needs Spark, or if there is none.
        over: Final check; returns False or raises if it fails.
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
        """Cause the problem, and run the command that its error names."""
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
    """Parametrize a test with the problems."""
    ids = [f"{one.error_id} {one.command}: {one.title}" for one in troubles]
    return pytest.mark.parametrize("trouble", troubles, ids=ids)


def state_of(patient: Patient) -> dict[str, str]:
    """Return the digest of each file of the storage root."""
    root = Path(patient.drivers.environment.layout.root)
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def typed(fix: str, name: str, values: Mapping[str, str]) -> list[str]:
    """Return the words of the command with this name in a fix, with placeholders filled, as confirmed."""
    named = [command for command in commands_of(_GLOBAL.sub("", fix)) if head(command) == name]
    assert len(named) == 1, f"{name}: {fix}"
    words = [values[word] if word.isupper() or word == "vN" else word for word in shlex.split(named[0])]
    return [*words[1:], *_confirmed(named[0])]


def _confirmed(command: str) -> list[str]:
    """Return the options that confirm a plan; without them the command only shows the plan."""
    options = {name for option in command_of(command).params for name in option.opts}
    wanted = {"--reason": ["as the fix says"], "--apply": []} if head(command) != "run" else {}
    added = ([name, *text] for name, text in wanted.items() if name in options and name not in command)
    return [word for words in added for word in words]


def _fixes(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {str(one["id"]): str(one["fix"]) for one in found}


def _goes_on(patient: Patient, rows: Iterable[int]) -> None:
    """Admit the next driver, which writes a batch."""
    patient.batches.admit()
    patient.batches.run()
    assert patient.ids() == sorted(rows)
