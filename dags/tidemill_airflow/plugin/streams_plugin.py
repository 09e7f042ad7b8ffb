"""What Airflow loads by the entry point `airflow.plugins`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from tidemill.names import STREAMS_PAGE


def _page() -> str:
    """Address of the page below the one that Airflow is reached by."""
    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return f"{base}{STREAMS_PAGE}"


class StreamsPlugin(AirflowPlugin):
    """The Streams page."""

    name = "tidemill"

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # Airflow asks an instance
        """Page and API; made in the API server only, for every task's process loads plugins, too."""
        from tidemill_airflow.plugin.app import streams_app

        return [{"app": streams_app(), "url_prefix": STREAMS_PAGE.rstrip("/"), "name": "Tidemill streams"}]

    @property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]  # as above
        """A place in the navigation, and a tab of DAGs. Airflow shows a tab for all DAGs or for none."""
        icons = {
            "icon": f"{_page()}static/streams-icon.svg",
            "icon_dark_mode": f"{_page()}static/streams-icon-dark.svg",
        }
        return [
            {
                "name": "Streams",
                "href": _page(),
                "url_route": "streams",
                "destination": "nav",
                "nav_top_level": True,
                **icons,
            },
            {
                "name": "Stream",
                "href": f"{_page()}#/dags/{{DAG_ID}}",
                "url_route": "stream",
                "destination": "dag",
                **icons,
            },
        ]
