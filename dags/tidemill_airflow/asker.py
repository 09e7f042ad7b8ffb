"""The requester of a run and the equivalent command, for audit entries and the fixes in errors."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tidemill_airflow.place import Place

if TYPE_CHECKING:
    from airflow.sdk import Context


def who_asks(context: Context) -> str:
    """Return the user who triggered this run."""
    return getattr(context["dag_run"], "triggering_user_name", None) or "airflow"


def asked_by(context: Context) -> str:
    """Return the user who triggered this run and the run's id."""
    return f"{who_asks(context)}, DAG run {context['dag_run'].run_id}"


def command(place: Place, *words: str) -> str:
    """Return the equivalent command line for this environment."""
    return shlex.join(["tidemill", "--env", place.environment, *words])
