"""The tasks of `checkpoint_hygiene`: one for each pipeline, and the report on all of them."""

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
    """Examine, back up and prune one pipeline's checkpoint, beside its stream.

    Fails after all of it was tried: for good if the doctor has found an error, else to be repeated.

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
        """Do it; returns what was found and done."""
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
    """Say what all tasks have come to, and what the doctor finds in no single pipeline.

    Fails if anything is wrong, so that the DAG run does.

    Args:
        place: Project and environment.
        pipelines: All that were looked after.
    """

    def __init__(self, *, place: Place, pipelines: Sequence[str], **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place
        self.pipelines = list(pipelines)

    def execute(self, context: Context) -> dict[str, Any]:
        """Sum up; returns the summary."""
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
    """What was refused, and which tasks have told nothing."""
    by_name = {care["pipeline"]: care for care in told}
    refused = [f"{name}: {text}" for name, care in by_name.items() for text in care["failed"]]
    silent = [f"{name}: its task has told nothing; see its log" for name in pipelines if name not in by_name]
    return [*refused, *silent]
