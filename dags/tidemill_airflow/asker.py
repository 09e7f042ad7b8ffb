"""Who asks for what a task does, and how that is typed: for audits, and for the fixes that errors name."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tidemill_airflow.place import Place

if TYPE_CHECKING:
    from airflow.sdk import Context


def who_asks(context: Context) -> str:
    """Who triggered this run."""
    return getattr(context["dag_run"], "triggering_user_name", None) or "airflow"


def asked_by(context: Context) -> str:
    """Who triggered this run, and which run it is."""
    return f"{who_asks(context)}, DAG run {context['dag_run'].run_id}"


def command(place: Place, *words: str) -> str:
    """The command line's words for the same, in this environment."""
    return shlex.join(["tidemill", "--env", place.environment, *words])
