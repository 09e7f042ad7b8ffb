"""Permissions to see a pipeline, act on it, and read records; only Airflow's login and roles decide.

| to                  | a user needs, in Airflow's terms                                          |
|---------------------|---------------------------------------------------------------------------|
| see a pipeline      | to read its DAG (`stream__<name>` or `incremental__<name>`)               |
| get a button        | to create runs of the DAG behind it; Airflow itself allows the run or not |
| see records and log | to create runs of the pipeline's DAG, and the view `Tidemill records`     |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, HTTPException

from tidemill.airflow_names import incremental_dag_id, stream_dag_id
from tidemill_airflow.place import Place

# Airflow's name for a custom permission of a plugin; with FAB, `can read on Tidemill records`.
RECORDS_VIEW = "Tidemill records"


def dag_of(place: Place, pipeline: str, mode: str | None) -> str:
    """Return the DAG id of a pipeline, even if Airflow has not parsed the DAG yet."""
    return place.dag_id(incremental_dag_id(pipeline) if mode == "incremental" else stream_dag_id(pipeline))


@dataclass(frozen=True)
class Viewer:
    """The logged-in user."""

    user: Any

    def readable(self, dag_ids: Iterable[str]) -> set[str]:
        """Return the DAG ids that the viewer may read."""
        ids = set(dag_ids)
        return get_auth_manager().filter_authorized_dag_ids(dag_ids=ids, user=self.user, method="GET")

    def may_run(self, dag_id: str) -> bool:
        """Return True if Airflow would let the viewer trigger the DAG."""
        return get_auth_manager().is_authorized_dag(
            method="POST",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id),
            user=self.user,
        )

    def may_see_records(self, dag_id: str) -> bool:
        """Return True if the viewer may read records, which may contain any data."""
        return self.may_run(dag_id) and get_auth_manager().is_authorized_custom_view(
            method="GET", resource_name=RECORDS_VIEW, user=self.user
        )

    def check_records(self, dag_id: str) -> None:
        """Raise if the viewer may not read records.

        Raises:
            HTTPException: 403.
        """
        if not self.may_see_records(dag_id):
            raise HTTPException(403, f"Records need the right to run {dag_id} and the view `{RECORDS_VIEW}`.")


def _viewer(user: GetUserDep) -> Viewer:
    return Viewer(user)


# Dependency of a route that answers 401 without a login.
LoggedIn = Annotated[Viewer, Depends(_viewer)]
