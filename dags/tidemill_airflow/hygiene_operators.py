"""The tasks of `checkpoint_hygiene`: one for each pipeline, and a report on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemill_airflow.advance_log import AdvanceLog
from tidemill_airflow.asker import asked_by
from tidemill_airflow.links import LINKS
from tidemill_airflow.place import Place
from tidemill_airflow.upkeep import told_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow.sdk import Context


class LookAfterCheckpoint(BaseOperator):
    """Examine, back up and prune one pipeline's checkpoint while its stream runs.

    All steps are tried before the task fails. It fails without retry if the doctor found an error, and with
    retry otherwise.

    Args:
        place: Project and environment.
        pipeline: The pipeline.
    """

    operator_extra_links = LINKS
    runbook = "checkpoint-doctor"

    def __init__(self, *, place: Place, pipeline: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place
        self.pipeline = pipeline

    def execute(self, context: Context) -> dict[str, Any]:
        """Run all steps and return findings and actions."""
        from tidemill.control.hygiene import line_of, look_after

        care = look_after(self.place.open(), self.pipeline, asked_by(context), AdvanceLog(self.log.info).tell)
        for line in care.lines():
            self.log.info("%s", line)
        document = care.as_document()
        if not care.errors and not care.failed:
            return document
        context["ti"].xcom_push(key="return_value", value=document)
        message = "\n".join([*map(line_of, care.errors), *care.failed])
        raise AirflowException(message) if care.failed else AirflowFailException(message)


class HygieneReport(BaseOperator):
    """Report the results of all tasks, and the doctor's findings that belong to no single pipeline.

    The task fails on any problem, so that the DAG run fails.

    Args:
        place: Project and environment.
        pipelines: All pipelines that were examined.
    """

    def __init__(self, *, place: Place, pipelines: Sequence[str], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place
        self.pipelines = list(pipelines)

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the summary."""
        from tidemill.control.hygiene import line_of, whole_examination

        found = whole_examination(self.place.open())
        told = told_by(context, "look_after")
        lines = [line_of(finding) for finding in found.findings]
        wrong = [line_of(finding) for finding in found.findings if finding.severity == "error"]
        wrong += troubles(told, self.pipelines)
        done = [f"{care['pipeline']}: {text}" for care in told for text in care["done"]]
        self.log.info("%s", "\n".join([*lines, *done]))
        summary = {"pipelines": found.pipelines, "folders": found.folders, "findings": lines, "done": done}
        if wrong:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowFailException("\n".join(["These checkpoints need a human.", *wrong]))
        return summary


def troubles(told: Iterable[Mapping[str, Any]], pipelines: Iterable[str]) -> list[str]:
    """Return the refused steps, and the tasks without a result."""
    by_name = {care["pipeline"]: care for care in told}
    refused = [f"{name}: {text}" for name, care in by_name.items() for text in care["failed"]]
    silent = [f"{name}: its task has told nothing; see its log" for name in pipelines if name not in by_name]
    return [*refused, *silent]
