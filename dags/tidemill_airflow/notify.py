"""Telling people what has changed: through whatever Airflow notifier the deployment names."""

from __future__ import annotations

import copy
import importlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tidemill.errors import UsageError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.control.report import Change

# `module:name` of an Airflow notifier, or of any other callable that takes a task's context.
NOTIFIER_VARIABLE = "TIDEMILL_NOTIFIER"

Notifier = Callable[[Any], object]

log = logging.getLogger(__name__)


def notifier_of(variables: Mapping[str, str] = os.environ) -> Notifier | None:
    """The notifier that the deployment names; None if it names none.

    Raises:
        UsageError: TIDE-CTRL-015, if it cannot be imported.
    """
    named = variables.get(NOTIFIER_VARIABLE)
    if not named:
        return None
    module, _, name = named.partition(":")
    try:
        return cast(Notifier, getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            "TIDE-CTRL-015",
            "The notifier cannot be imported, so nobody would be told.",
            facts={NOTIFIER_VARIABLE: named, "cause": error},
            fix="name it as module:name, importable by Airflow's tasks, or unset the variable",
        ) from error


def notify(notifier: Notifier | None, context: Context, news: Sequence[Change]) -> bool:
    """Tell what has changed; whether that was done, so that it need not be told again.

    The notifier gets the task's context with `tidemill`: `text`, and `changes` as plain data.
    """
    text = "\n".join(map(str, news))
    if not news:
        return True
    log.info("Changed:\n%s", text)
    if notifier is None:
        return True
    plain = [
        {
            "pipeline": change.pipeline,
            "trouble": None if change.trouble is None else change.trouble.model_dump(mode="json"),
        }
        for change in news
    ]
    try:
        # A copy: Airflow's own notifiers put what they render in the place of their templates.
        copy.copy(notifier)({**context, "tidemill": {"text": text, "changes": plain}})
    except Exception:
        # Whatever it is, the streams were visited; the next visit tells again.
        log.exception("The notifier failed.")
        return False
    return True
