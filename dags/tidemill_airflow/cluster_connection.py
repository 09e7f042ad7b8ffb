"""Access to an environment's cluster through its Airflow connection, as `KubernetesHook` reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.errors import UnavailableError

if TYPE_CHECKING:
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    from kubernetes.client import Configuration

# The connection type that the hook reads. With any other type it would find no settings and use the cluster
# that it runs in.
KUBERNETES = "kubernetes"


def settings_by(connection: str) -> Configuration:
    """Return separate client settings that no other hook of this process changes.

    The hook loads the connection into the given settings, except if the connection sets `in_cluster`. Then it
    loads the process's default, and the given settings stay empty (provider 10.25).

    Raises:
        UnavailableError: TIDE-CTRL-060, if there is no such connection; TIDE-CTRL-061, if it cannot be used.
    """
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    from kubernetes.client import Configuration
    from kubernetes.config import load_incluster_config

    settings = Configuration()
    hook = KubernetesHook(conn_id=connection, client_configuration=settings)
    _check_type(hook, connection)
    try:
        # This property also loads the settings into `settings`.
        if hook.is_in_cluster:
            load_incluster_config(client_configuration=settings)
    except Exception as error:  # noqa: BLE001  # any error means that the connection is unusable
        # Errors that are not about settings may quote the connection, so only their type is shown.
        raise _unusable(connection, _words(error)) from None
    return settings


def _check_type(hook: KubernetesHook, connection: str) -> None:
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        its_type = hook.get_connection(connection).conn_type
    except AirflowNotFoundException as error:
        raise UnavailableError(
            "TIDE-CTRL-060",
            "Airflow has no connection of the name that the environment gives, or cannot be asked for it.",
            facts={"connection": connection},
            fix=f"make it: airflow connections add {connection} --conn-type {KUBERNETES} --conn-extra "
            "'{\"in_cluster\": true}', or correct `kubernetes.connection` of the environment",
            runbook="kubernetes-unavailable",
        ) from error
    # The type is empty if the hook's default connection does not exist.
    if its_type and its_type != KUBERNETES:
        raise _unusable(connection, f"its type is {its_type}, not {KUBERNETES}")


def _words(error: Exception) -> str:
    from airflow.sdk.exceptions import AirflowException
    from kubernetes.config import ConfigException

    kind = type(error).__name__
    return f"{kind}: {error}" if isinstance(error, (AirflowException, ConfigException)) else kind


def _unusable(connection: str, cause: str) -> UnavailableError:
    return UnavailableError(
        "TIDE-CTRL-061",
        "The Airflow connection of the environment does not lead to a cluster.",
        facts={"connection": connection, "cause": cause},
        fix="correct it under Admin, Connections: in_cluster, kube_config_path or kube_config, one of them",
        runbook="kubernetes-unavailable",
    )
