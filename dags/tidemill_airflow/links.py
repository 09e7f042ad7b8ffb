"""Links on a task in Airflow's UI: its runbook page, its pipeline's page and the drivers' logs.

A link exists only if it has a target. The deployment configures the addresses of runbook pages and logs, and
the Streams page shows one environment. The worker creates the links when the task ends, so the UI needs no
configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import attrs
from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from tidemill.airflow_names import streams_page_path

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

# Address of the folder of runbook pages, such as the web page of a repository.
RUNBOOKS_VARIABLE = "TIDEMILL_RUNBOOKS_URL"
# Address that shows the driver logs of one pipeline; contains `{pipeline}`.
LOGS_VARIABLE = "TIDEMILL_LOGS_URL"


@attrs.define
class RunbookLink(BaseOperatorLink):
    """Link to the runbook page for a failed task."""

    name = "Runbook"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Return the address of the operator's runbook page."""
        return runbook_address(getattr(operator, "runbook", ""))


@attrs.define
class StreamsPageLink(BaseOperatorLink):
    """Link to the pipeline in the Streams page."""

    name = "Streams page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the pipeline in the page; empty for a second environment."""
        pipeline, place = pipeline_of(operator, ti_key), getattr(operator, "place", None)
        if not pipeline or (place is not None and place.beside):
            return ""
        return airflow_path() + streams_page_path(quote(pipeline, safe=""))


@attrs.define
class DriverLogLink(BaseOperatorLink):
    """Link to the log of the pipeline's drivers."""

    name = "Driver log"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address that the deployment configures."""
        pipeline = pipeline_of(operator, ti_key)
        return _address(LOGS_VARIABLE).replace("{pipeline}", quote(pipeline, safe="")) if pipeline else ""


def runbook_address(page: str) -> str:
    """Return the address of a runbook page; empty without a page or without a configured address."""
    folder = _address(RUNBOOKS_VARIABLE)
    return f"{folder}/{quote(page, safe='')}.md" if page and _is_web(folder) else ""


def airflow_path() -> str:
    """Return the path prefix of Airflow, without a trailing slash; empty if it is at the root of its host."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


def links(variables: Mapping[str, str] = os.environ) -> list[BaseOperatorLink]:
    """Return the links that have a target in this deployment."""
    return [
        *([RunbookLink()] if _is_web(variables.get(RUNBOOKS_VARIABLE)) else []),
        *([DriverLogLink()] if _is_web(variables.get(LOGS_VARIABLE)) else []),
        StreamsPageLink(),
    ]


def pipeline_of(operator: BaseOperator, ti: Any) -> str:
    """Return the task's pipeline: from the operator, its goal, or the form; empty if none."""
    goal = getattr(operator, "goal", None)
    named = getattr(operator, "pipeline", None) or (goal.get("pipeline") if isinstance(goal, dict) else None)
    if named is None and hasattr(ti, "get_template_context"):
        named = ti.get_template_context()["params"].get("pipeline")
    return str(named or "")


def _address(variable: str) -> str:
    return os.environ.get(variable, "").rstrip("/")


def _is_web(address: str | None) -> bool:
    """Return True for an http(s) address; other schemes, such as javascript:, make no link."""
    return (address or "").startswith(("https://", "http://"))


LINKS = links()
