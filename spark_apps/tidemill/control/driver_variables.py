"""The environment variables that a driver gets: a list of what it needs, never all that the caller has.

Airflow's own variables hold its database, its keys and its connections; a driver runs other people's
transforms and must not see them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.airflow_names import DAG_RUN_VARIABLE
from tidemill.checkpoint.root_owner import CONTROL_PLANE_VARIABLE

KEPT = frozenset(
    {
        "PATH",
        "JAVA_HOME",
        "SPARK_SUBMIT_OPTS",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "PYTHONPATH",
        "VIRTUAL_ENV",
    }
)
KEPT_PREFIXES = ("LC_", "TIDEMILL_")

# Marks every process of a run, so that what a killed driver left behind (its JVM) is told from others.
RUN_ID_VARIABLE = "TIDEMILL_RUN_ID"


def started_by(run_id: str, control_plane: str, dag_run: str = "") -> dict[str, str]:
    """What tells a driver which run it is, and which control plane and DAG run have started it."""
    told = {RUN_ID_VARIABLE: run_id, CONTROL_PLANE_VARIABLE: control_plane}
    return {**told, DAG_RUN_VARIABLE: dag_run} if dag_run else told


def driver_variables(variables: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The variables of a driver: those that it needs of its starter's, and its own."""
    kept = {
        name: value for name, value in variables.items() if name in KEPT or name.startswith(KEPT_PREFIXES)
    }
    return {**kept, **own}
