"""**Does:** Runs by hand.

`plan` shows the planned changes. With `dry_run` on (the default), nothing else happens. With `dry_run` off,
`apply` carries out exactly this plan and writes an audit entry that names the requester. If the operation
needs a stopped stream, `stop` stops it first, and `start` starts it again, even if the operation failed. In a
protected environment, a second user must approve the plan (`approve`, under Required Actions). The audit
entry names the approver. Without an answer within an hour, nothing changes.

**Healthy:** Read the plan of a dry run first. `apply` returns the changes and the next steps. `start` ends
after the new driver has committed a batch.

**Not healthy:** `plan` refuses and gives the reason. Nothing was changed. `apply` refuses if the plan has
changed since it was shown. If `apply` was interrupted, clear it, and it continues after the last finished
step. Until then a hold prevents starts, and `start` names the command that completes the operation.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tidemill.airflow_names import checkpoint_dag_id
from tidemill.control.procedures.filled_form import fields_of
from tidemill.control.procedures.verb_forms import FORMS, Field
from tidemill_airflow.approval import APPROVE, PLAN, ApprovePlan
from tidemill_airflow.declared import is_protected, names
from tidemill_airflow.place import place_of
from tidemill_airflow.retries import LONG_WORK_TIMEOUT, REPEATED
from tidemill_airflow.runbook_operators import (
    ApplyVerb,
    EndOfVerb,
    PlanVerb,
    StartAfterVerb,
    StopForVerb,
)

PLACE = place_of(__file__)
# Includes pipelines with broken files, because they may need a hold or a backup.
PIPELINES = names(PLACE)
PROTECTED = is_protected(PLACE)

# Fields whose values are pipeline names.
OF_PIPELINES = ("pipeline", "fork")


def param_of(field: Field) -> Param:
    """Return the trigger-form parameter of a field; a field without a default is required."""
    schema = {"type": "string", "enum": PIPELINES} if field.name in OF_PIPELINES else dict(field.schema)
    given = () if field.default is ... else (field.default,)
    return Param(*given, **schema, description=field.help)


for verb, form in FORMS.items():
    if not PIPELINES:
        break
    with DAG(
        PLACE.dag_id(checkpoint_dag_id(verb)),
        description=form.does,
        schedule=None,
        # Runs by hand only, so there is no reason to start paused.
        is_paused_upon_creation=False,
        # A paused DAG accepts a request and never runs it.
        max_consecutive_failed_dag_runs=0,
        doc_md=f"# checkpoint {verb}\n\n{form.does}\n\n{__doc__}Pages: {form.page}, unfinished-procedure.\n",
        tags=["tidemill", "checkpoint"],
        default_args={**REPEATED, "owner": "tidemill"},
        params={field.name: param_of(field) for field in fields_of(verb)},
    ):
        # Run the plan even if `stop` was skipped, as on a dry run.
        plan = PlanVerb(task_id=PLAN, place=PLACE, verb=verb, trigger_rule="none_failed")
        apply = ApplyVerb(task_id="apply", place=PLACE, verb=verb, execution_timeout=LONG_WORK_TIMEOUT)
        if form.needs_approval and PROTECTED:
            # An approval that timed out is not requested again.
            plan >> ApprovePlan(task_id=APPROVE, what=f"checkpoint {verb}", retries=0) >> apply
        else:
            plan >> apply
        if form.stops:
            StopForVerb(task_id="stop", place=PLACE, verb=verb) >> plan
            # `start` and `end` are teardowns. When a user marks a run as failed, perhaps while it waits at
            # `approve`, Airflow skips all other tasks, and the stream would stay stopped.
            start = StartAfterVerb(task_id="start", place=PLACE).as_teardown()
            end = EndOfVerb(task_id="end").as_teardown(on_failure_fail_dagrun=True)
            apply >> start >> end
