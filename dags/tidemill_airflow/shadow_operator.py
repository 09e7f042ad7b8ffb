"""The task of `shadow_run`."""

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
    """Have the declared version make newest batches again, aside, and compare.

    Args:
        place: Project and environment.
    """

    operator_extra_links = LINKS
    runbook = "shadow-run"

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> dict[str, Any]:
        """Run it; returns how the rows differ. Fails for good if they do."""
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
