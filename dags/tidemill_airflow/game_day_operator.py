"""The task of the `game_day` DAG."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tidemill_airflow.asker import asked_by, command
from tidemill_airflow.links import LINKS
from tidemill_airflow.place import Place
from tidemill_airflow.request_name import request_names
from tidemill_airflow.trigger_form import refuse_unknown_fields

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.control.plane import ControlPlane


class PlayGameDay(BaseOperator):
    """Run all drills on a copy of one stream.

    Args:
        place: Project and environment.
    """

    operator_extra_links = LINKS
    runbook = "game-day"

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the drills and return the measurements; fail without retry if a drill failed."""
        from tidemill.control.ask.run_id import run_id_of
        from tidemill.control.game_day.play import is_played, play
        from tidemill.control.procedures.run import Asking
        from tidemill.spec.project import resolve_pipeline

        refuse_unknown_fields(self, context)
        plane = self.place.open()
        name = context["params"].get("pipeline") or self._first(plane)
        pipeline = resolve_pipeline(plane.environment, name)
        *earlier, asking = [
            Asking(
                "fork",
                (),
                asked_by(context),
                partial(command, self.place),
                reason="game day",
                request_id=run_id_of(f"{request} {name}"),
            )
            for request in request_names(context)
        ]
        # A retry finds the pod of the previous try, and a cleared task finds one that still runs.
        at_work = next((each for each in earlier if is_played(plane, pipeline, each)), asking)
        day = play(plane, pipeline, at_work, tell=self.log.info)
        told = day.as_document()
        if day.failed:
            context["ti"].xcom_push(key="return_value", value=told)
            lines = [f"{result.drill}: {result.told}" for result in day.results if result.outcome == "failed"]
            raise AirflowFailException("\n".join([f"{name} did not recover on its copy.", *lines]))
        return told

    def _first(self, plane: ControlPlane) -> str:
        from tidemill.control.game_day.play import playable_pipelines

        found = playable_pipelines(plane)
        if not found:
            raise AirflowSkipException("No stream can be copied; page game-day says which can.")
        return found[0]
