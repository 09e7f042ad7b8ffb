"""Buttons on a task in Airflow's UI: its runbook page, its pipeline's page, and where drivers' logs are kept.

A link is there only if it leads somewhere: the deployment says where pages and logs can be read, and the
Streams page shows one environment. The worker makes them when the task ends, so the UI needs none of this.
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

# Folder of the runbook pages as people read them, such as that of a repository in its web page.
RUNBOOKS_VARIABLE = "TIDEMILL_RUNBOOKS_URL"
# Where a service shows the logs of one pipeline's drivers, with `{pipeline}` in its address.
LOGS_VARIABLE = "TIDEMILL_LOGS_URL"


@attrs.define
class RunbookLink(BaseOperatorLink):
    """The page for when the task has failed."""

    name = "Runbook"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """The page that the operator names."""
        return runbook_address(getattr(operator, "runbook", ""))


@attrs.define
class StreamsPageLink(BaseOperatorLink):
    """The pipeline in the Streams page."""

    name = "Streams page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The pipeline's part of it; the page has nothing of an environment beside its own."""
        pipeline, place = pipeline_of(operator, ti_key), getattr(operator, "place", None)
        if not pipeline or (place is not None and place.beside):
            return ""
        return airflow_path() + streams_page_path(quote(pipeline, safe=""))


@attrs.define
class DriverLogLink(BaseOperatorLink):
    """The log of the pipeline's drivers."""

    name = "Driver log"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Where the deployment keeps it."""
        pipeline = pipeline_of(operator, ti_key)
        return _address(LOGS_VARIABLE).replace("{pipeline}", quote(pipeline, safe="")) if pipeline else ""


def runbook_address(page: str) -> str:
    """Where a runbook page can be read; empty without a page, and where the deployment does not say."""
    folder = _address(RUNBOOKS_VARIABLE)
    return f"{folder}/{quote(page, safe='')}.md" if page and _is_web(folder) else ""


def airflow_path() -> str:
    """Path below which Airflow is reached, without a slash in the end; empty if it has its host to itself."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")


def links(variables: Mapping[str, str] = os.environ) -> list[BaseOperatorLink]:
    """The links that lead somewhere in this deployment."""
    return [
        *([RunbookLink()] if _is_web(variables.get(RUNBOOKS_VARIABLE)) else []),
        *([DriverLogLink()] if _is_web(variables.get(LOGS_VARIABLE)) else []),
        StreamsPageLink(),
    ]


def pipeline_of(operator: BaseOperator, ti: Any) -> str:
    """Which pipeline a task is about: its own, its goal's, or that of the form; empty if none."""
    goal = getattr(operator, "goal", None)
    named = getattr(operator, "pipeline", None) or (goal.get("pipeline") if isinstance(goal, dict) else None)
    if named is None and hasattr(ti, "get_template_context"):
        named = ti.get_template_context()["params"].get("pipeline")
    return str(named or "")


def _address(variable: str) -> str:
    return os.environ.get(variable, "").rstrip("/")


def _is_web(address: str | None) -> bool:
    """Whether it is an address for a browser; anything else, such as javascript:, makes no link."""
    return (address or "").startswith(("https://", "http://"))


LINKS = links()
