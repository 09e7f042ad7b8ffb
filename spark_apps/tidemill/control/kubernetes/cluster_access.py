"""Access to a cluster's API server: the settings of the official client.

Airflow's processes use the Airflow connection that the environment names. Other processes use the pod's
service account, or else KUBECONFIG. This package does not import Airflow, so Airflow's processes pass the
function that reads a connection.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemill.errors import UnavailableError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

# Returns the settings of a cluster for an Airflow connection; new settings at each call.
SettingsOf = Callable[[str], "Configuration"]

# Reads the Airflow connections of this process; None outside of Airflow. It is set once for the process, so
# that not every caller that opens a control plane has to pass it.
_connections: SettingsOf | None = None


def use_connections(settings_of: SettingsOf | None) -> None:
    """Use this function for all environments that name an Airflow connection."""
    global _connections  # noqa: PLW0603  # see above
    _connections = settings_of


def cluster_settings(connection: str | None) -> Configuration:
    """Return the settings of the client for the environment and this process.

    A request that was sent is never repeated, because it may have succeeded, and its repetition would get a
    conflict with it.

    Args:
        connection: Name of an Airflow connection.

    Raises:
        UnavailableError: TIDE-K8S-007, if no cluster is configured here, or no client is installed.
    """
    try:
        from urllib3 import Retry

        if connection is not None and _connections is not None:
            settings = _connections(connection)
        else:
            settings = _own_settings(connection)
    except ImportError as error:
        raise _no_way(error, "install tidemill[airflow], or run it in an Airflow pod", connection) from error
    # One more try to connect; more would hide an unavailable API server.
    settings.retries = Retry(total=1, redirect=0, read=0)
    return settings


def _own_settings(connection: str | None) -> Configuration:
    from kubernetes.client import Configuration
    from kubernetes.config import load_incluster_config, load_kube_config
    from kubernetes.config.config_exception import ConfigException

    settings = Configuration()
    try:
        try:
            load_incluster_config(client_configuration=settings)
        except ConfigException:
            # Passed explicitly, because the client reads KUBECONFIG only once at import.
            load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=settings)
    except (ConfigException, OSError) as error:
        fix = "run it in a pod with a service account, or point KUBECONFIG at a file"
        raise _no_way(error, fix, connection) from error
    return settings


def _no_way(cause: Exception, fix: str, connection: str | None) -> UnavailableError:
    named = {} if connection is None else {"connection": connection}
    only_airflows = "; the connection is for Airflow's own tasks only" if connection is not None else ""
    return UnavailableError(
        "TIDE-K8S-007",
        "There is no way to a Kubernetes API server from here.",
        facts={**named, "cause": cause},
        fix=fix + only_airflows,
        runbook="kubernetes-unavailable",
    )
