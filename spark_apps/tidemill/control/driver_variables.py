"""The environment variables of a driver: a list of those it needs, never all of the caller's variables.

Airflow's variables contain its database, keys and connections. A driver runs transforms written by users,
which must not see them.
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

# Marks every process of a run, so that the remaining processes of a killed driver (its JVM) can be
# recognized.
RUN_ID_VARIABLE = "TIDEMILL_RUN_ID"


def started_by(run_id: str, control_plane: str, dag_run: str = "") -> dict[str, str]:
    """Return the variables with a driver's run, control plane and DAG run."""
    told = {RUN_ID_VARIABLE: run_id, CONTROL_PLANE_VARIABLE: control_plane}
    return {**told, DAG_RUN_VARIABLE: dag_run} if dag_run else told


def driver_variables(variables: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a driver: the needed ones of its starter, and its own."""
    kept = {
        name: value for name, value in variables.items() if name in KEPT or name.startswith(KEPT_PREFIXES)
    }
    return {**kept, **own}
