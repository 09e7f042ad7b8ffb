"""Send notices through the environment's channels and the deployment's notifier."""

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

# `module:name` of an Airflow notifier, or of another callable that takes a task's context.
NOTIFIER_VARIABLE = "TIDEMILL_NOTIFIER"

# Maximum seconds for a mail server or chat; all channels are notified in parallel. The visits before may have
# taken four minutes, and the task has four and a half (dags/tidemill_streams.py).
PATIENCE_SECONDS = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Channels:
    """Channels that can be notified, and the errors of the others.

    Args:
        tell: Send function of each channel, by name.
        refused: Error of each channel whose declaration cannot work, by name.
    """

    tell: Mapping[str, Tell]
    refused: Mapping[str, TidemillError]

    @property
    def names(self) -> list[str]:
        """Return the names of all channels."""
        return [*self.tell, *self.refused]


def channels_of(spec: EnvironmentSpec | None, variables: Mapping[str, str] = os.environ) -> Channels:
    """Return the channels of an environment and the deployment's notifier. No connection is opened.

    Args:
        spec: The environment; None if it cannot be read.
        variables: Environment variables, which may name the notifier.
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
    """Return the deployment's notifier. It gets the task's context plus `tidemill`, the notice as plain data.

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
    # Copy the notifier, because Airflow's notifiers replace their templates with the rendered text.
    return lambda notice, context: copy.copy(notifier)({**context, "tidemill": notice.as_document()})


def tell_all(channels: Channels, notices: Mapping[str, Notice], context: Mapping[str, Any]) -> set[str]:
    """Send each channel its notice in parallel; return the names of channels that failed.

    Errors are logged. The error of one channel does not affect the others.

    Args:
        channels: The channels.
        notices: Notices by channel name.
        context: Context of the task.
    """
    from tidemill.control.decide.side_by_side import IsLate, Limits, side_by_side

    def tell(name: str, _is_late: IsLate) -> bool:
        try:
            channels.tell[name](notices[name], context)
        except TidemillError as error:
            # Do not log the cause, which may contain an address with a secret.
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
