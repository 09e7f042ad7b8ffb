"""The plugin class that Airflow loads by the entry point `airflow.plugins`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from tidemill.airflow_names import STREAMS_PAGE
from tidemill_airflow.links import airflow_path

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)


def _app() -> FastAPI:
    """Return page and API, or a page that reports why they cannot be created, as with another Airflow.

    Airflow's API server does not start if a plugin raises.
    """
    try:
        from tidemill_airflow.plugin.app import streams_app

        return streams_app()
    except Exception as error:
        log.exception("the Streams page is off")
        return _off(type(error).__name__)


def _off(what: str) -> FastAPI:
    """Return a page that needs no login and therefore shows no details; they are in the log."""
    from fastapi import FastAPI
    from fastapi.responses import PlainTextResponse

    app = FastAPI(openapi_url=None)

    @app.get("/{path:path}")
    def off() -> PlainTextResponse:
        words = f"The Streams page is off ({what}): the log of Airflow's API server says why."
        return PlainTextResponse(words, 503)

    return app


class StreamsPlugin(AirflowPlugin):
    """The Streams page."""

    name = "tidemill"

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # Airflow reads it from an instance
        """Return page and API; created only in the API server, because every task process loads plugins."""
        return [{"app": _app(), "url_prefix": STREAMS_PAGE.rstrip("/"), "name": "Tidemill streams"}]

    @property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]  # as above
        """Return the navigation entry and the DAG tab, which Airflow shows for all DAGs or for none."""
        page = airflow_path() + STREAMS_PAGE
        icons = {
            "icon": f"{page}static/streams-icon.svg",
            "icon_dark_mode": f"{page}static/streams-icon-dark.svg",
        }
        return [
            {
                "name": "Streams",
                "href": page,
                "url_route": "streams",
                "destination": "nav",
                "nav_top_level": True,
                **icons,
            },
            {
                "name": "Stream",
                "href": f"{page}#/dags/{{DAG_ID}}",
                "url_route": "stream",
                "destination": "dag",
                **icons,
            },
        ]
