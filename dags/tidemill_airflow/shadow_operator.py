"""The task of the `shadow_run` DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from tidemill_airflow.links import LINKS
from tidemill_airflow.place import Place
from tidemill_airflow.trigger_form import refuse_unknown_fields

if TYPE_CHECKING:
    from airflow.sdk import Context


class RunShadow(BaseOperator):
    """Run the newest batches again with the declared version on a copy, and compare the rows.

    Args:
        place: Project and environment.
    """

    operator_extra_links = LINKS
    runbook = "shadow-run"

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the shadow and return the differences; fail without retry if there are any."""
        from tidemill.control.shadow_run import run_shadow, stretch_of
        from tidemill.spec.project import resolve_pipeline

        refuse_unknown_fields(self, context)
        plane, params = self.place.open(), context["params"]
        pipeline = resolve_pipeline(plane.environment, params["pipeline"])
        stretch = stretch_of(plane, pipeline, int(params["batches"]))
        self.log.info("batches %d-%d of %s", stretch.batches[0], stretch.last, stretch.generation)
        found = run_shadow(plane, pipeline, stretch).without_rows()
        told, text = found.model_dump(mode="json"), "\n".join(found.lines())
        if not found.is_same:
            context["ti"].xcom_push(key="return_value", value=told)
            raise AirflowFailException(text)
        self.log.info("%s", text)
        return told
