"""**Does:** runs by hand. `plan` shows what would be done. That is all, unless `dry_run` is switched off:
then `apply` carries out this very plan, and leaves an audit entry with who asked. If the pipeline must stand
still meanwhile, `stop` stops its stream first, and `start` starts it again, whatever came of the verb. In a
protected environment someone else approves in between (`approve`, under Required Actions), and is named in
the audit entry; without an answer within an hour nothing is changed.

**Healthy:** read the plan of a dry run first. `apply` returns what was done and what comes next; `start` ends
with a batch that the new driver committed.

**Not healthy:** `plan` refuses, and says why; nothing was changed. `apply` refuses a plan that has changed
since it was shown. If `apply` was cut short, clear it: it goes on after the last step that was done. Until
then a hold forbids starts, and `start` says which command completes the verb.
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
# Also of broken files: a hold or a backup may be wanted just then.
PIPELINES = names(PLACE)
PROTECTED = is_protected(PLACE)

# Fields whose values are names of pipelines.
OF_PIPELINES = ("pipeline", "fork")


def param_of(field: Field) -> Param:
    """A field of the trigger form; one without a default must be filled in."""
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
        # Runs by hand only, so there is nothing to wait for.
        is_paused_upon_creation=False,
        # A paused DAG takes a request and never carries it out.
        max_consecutive_failed_dag_runs=0,
        doc_md=f"# checkpoint {verb}\n\n{form.does}\n\n{__doc__}Pages: {form.page}, unfinished-procedure.\n",
        tags=["tidemill", "checkpoint"],
        default_args={**REPEATED, "owner": "tidemill"},
        params={field.name: param_of(field) for field in fields_of(verb)},
    ):
        # Also after a stop that was skipped, as on a dry run.
        plan = PlanVerb(task_id=PLAN, place=PLACE, verb=verb, trigger_rule="none_failed")
        apply = ApplyVerb(task_id="apply", place=PLACE, verb=verb, execution_timeout=LONG_WORK_TIMEOUT)
        if form.needs_approval and PROTECTED:
            # A question that nobody answered in time is not asked again.
            plan >> ApprovePlan(task_id=APPROVE, what=f"checkpoint {verb}", retries=0) >> apply
        else:
            plan >> apply
        if form.stops:
            StopForVerb(task_id="stop", place=PLACE, verb=verb) >> plan
            # Teardowns, because Airflow skips all other tasks of a run that a person marks as failed, perhaps
            # while it waits at `approve`: its stream would stay stopped.
            start = StartAfterVerb(task_id="start", place=PLACE).as_teardown()
            end = EndOfVerb(task_id="end").as_teardown(on_failure_fail_dagrun=True)
            apply >> start >> end
