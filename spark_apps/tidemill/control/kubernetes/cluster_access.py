"""The way to a cluster's API server: the settings of the official client.

By the Airflow connection that the environment names, in Airflow's own processes; else by the pod's account,
else by KUBECONFIG. This package knows no Airflow: Airflow's processes say how a connection is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemill.errors import UnavailableError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

# Makes the settings of a cluster from the name of an Airflow connection, anew at each call.
SettingsOf = Callable[[str], "Configuration"]

# How this process reads Airflow's connections; None outside of Airflow. A process is of Airflow or it is not,
# so this is said once, and not handed down to everything that may open a control plane.
_connections: SettingsOf | None = None


def use_connections(settings_of: SettingsOf | None) -> None:
    """From now on, environments that name an Airflow connection reach their cluster by it."""
    global _connections  # noqa: PLW0603  # see above
    _connections = settings_of


def cluster_settings(connection: str | None) -> Configuration:
    """Settings of the client, as the environment and this process have them.

    A request that was sent is never repeated, whoever the settings are from: it may have been carried out,
    and its second self would be told of a conflict with the first.

    Args:
        connection: Name of an Airflow connection.

    Raises:
        UnavailableError: TIDE-K8S-007, if nothing names a cluster here, or no client is installed.
    """
    try:
        from urllib3 import Retry

        if connection is not None and _connections is not None:
            settings = _connections(connection)
        else:
            settings = _own_settings(connection)
    except ImportError as error:
        raise _no_way(error, "install tidemill[airflow], or run it in an Airflow pod", connection) from error
    # One more try to connect; more would hide an API server that is unavailable.
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
            # Named here: the client's own default is what KUBECONFIG was when it was imported.
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
