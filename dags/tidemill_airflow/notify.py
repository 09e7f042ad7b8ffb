"""Telling people: through the channels of the environment, and through the deployment's own notifier."""

from __future__ import annotations

import copy
import importlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tidemill.errors import TidemillError, UnavailableError, UsageError
from tidemill_airflow.channels import Tell, open_channel

if TYPE_CHECKING:
    from tidemill.control.news import Notice
    from tidemill.spec.environment import EnvironmentSpec

# `module:name` of an Airflow notifier, or of any other callable that takes a task's context.
NOTIFIER_VARIABLE = "TIDEMILL_NOTIFIER"

# Longest that a mail server or chat may take, in seconds; all are told at once. The visits before may have
# taken four minutes, and the task has four and a half (dags/tidemill_streams.py).
PATIENCE_SECONDS = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Channels:
    """Those who can be told, and why others cannot.

    Args:
        tell: By name, what tells them.
        refused: By name, why a channel can never be told as it is declared.
    """

    tell: Mapping[str, Tell]
    refused: Mapping[str, TidemillError]

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.tell, *self.refused]


def channels_of(spec: EnvironmentSpec | None, variables: Mapping[str, str] = os.environ) -> Channels:
    """The channels of an environment, and the deployment's notifier. None is asked for anything.

    Args:
        spec: The environment; None if it cannot be read.
        variables: Where the notifier is named.
    """
    openers: dict[str, Callable[[], Tell]] = {
        channel.name: partial(open_channel, channel) for channel in (spec.notify if spec else ())
    }
    if variables.get(NOTIFIER_VARIABLE):
        openers[NOTIFIER_VARIABLE] = partial(own_notifier, variables[NOTIFIER_VARIABLE])
    tell, refused = dict[str, Tell](), dict[str, TidemillError]()
    for name, open_it in openers.items():
        try:
            tell[name] = open_it()
        except TidemillError as error:
            refused[name] = error
    return Channels(tell, refused)


def own_notifier(named: str) -> Tell:
    """The deployment's own notifier. It gets the task's context with `tidemill`: the notice as plain data.

    Raises:
        UsageError: TIDE-CTRL-015, if it cannot be imported.
    """
    module, _, name = named.partition(":")
    try:
        notifier = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            "TIDE-CTRL-015",
            "The notifier cannot be imported, so nobody would be told.",
            facts={NOTIFIER_VARIABLE: named, "cause": error},
            fix="name it as module:name, importable by Airflow's tasks, or unset the variable",
        ) from error
    # A copy: Airflow's own notifiers put what they render in the place of their templates.
    return lambda notice, context: copy.copy(notifier)({**context, "tidemill": notice.as_document()})


def tell_all(channels: Channels, notices: Mapping[str, Notice], context: Mapping[str, Any]) -> set[str]:
    """Tell each channel its notice, all at once; returns the names of those that were not told.

    Whatever goes wrong with one is in the log, and is that one's alone.

    Args:
        channels: The channels.
        notices: By name of the channel.
        context: Of the task.
    """
    from tidemill.control.decide.side_by_side import IsLate, Limits, side_by_side

    def tell(name: str, _is_late: IsLate) -> bool:
        try:
            channels.tell[name](notices[name], context)
        except TidemillError as error:
            # Without its cause, which may know an address with a secret.
            log.error("%s", error)
            return False
        except Exception:
            log.exception("%s could not be told.", name)
            return False
        return True

    limits = Limits(at_once=len(notices) or 1, each_seconds=PATIENCE_SECONDS, all_seconds=PATIENCE_SECONDS)
    wanted = [name for name in notices if name in channels.tell]
    answers = dict(side_by_side(wanted, tell, limits))
    for name in _silent(answers.items()):
        log.error("%s", _too_slow(name))
    return {name for name in notices if not answers.get(name)}


def _silent(answers: Iterable[tuple[str, bool | None]]) -> list[str]:
    return [name for name, answer in answers if answer is None]


def _too_slow(name: str) -> UnavailableError:
    return UnavailableError(
        "TIDE-CTRL-071",
        "A channel could not be told.",
        facts={"channel": name, "cause": f"no answer within {PATIENCE_SECONDS} seconds"},
    )
