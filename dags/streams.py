"""# One stream: start, stop, restart, suspend or resume

**Does:** triggered by hand. `act` writes what you want (a stop lasts until an operator starts it again)
and asks the driver; `prove` waits, without a worker, for the proof. A suspended stream is started again by
`tidemill_streams` when `until` has passed, or by `resume`. The last request wins: a start ends a suspension,
a stop makes it last.

**Healthy:** start, restart and resume end with a batch that the new driver committed, or with its word that
the source is empty; stop and suspend end with the driver's receipt. The evidence is what `prove` returns.

**Not healthy:** `prove` fails with the driver's own error and the path of its log. A stop that had to be
forced fails too: the next start repeats that batch, and nothing is lost.
Pages: stream-does-not-start, drain-overdue.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tidemill.airflow_names import stream_dag_id
from tidemill_airflow.declared import declared
from tidemill_airflow.moment import MOMENT
from tidemill_airflow.place import place_of
from tidemill_airflow.retries import REPEATED
from tidemill_airflow.stream_operators import ProveStream, StreamAction

ACTIONS = ["start", "stop", "restart", "suspend", "resume"]

PLACE = place_of(__file__)

for name, spec in declared(PLACE, "stream", stream_dag_id):
    with DAG(
        PLACE.dag_id(stream_dag_id(name)),
        description=spec.description,
        schedule=None,
        # Runs by hand only, so there is nothing to wait for.
        is_paused_upon_creation=False,
        # A paused DAG takes a request and never carries it out.
        max_consecutive_failed_dag_runs=0,
        max_active_runs=1,
        doc_md=f"{__doc__}\n**This stream:** {spec.description} Owner: {spec.owner}.",
        tags=["tidemill", "stream", spec.owner],
        default_args={**REPEATED, "owner": spec.owner},
        params={
            "action": Param("start", type="string", enum=ACTIONS, description="What to do."),
            "until": Param(
                None,
                **MOMENT,
                description="Of a suspension: when the stream is started again. Empty: when it is resumed.",
            ),
            "reason": Param(
                "",
                type="string",
                maxLength=200,
                pattern=r"^[^\x00-\x1f]*$",
                description="Why; shown in status.",
            ),
        },
    ):
        act = StreamAction(task_id="act", place=PLACE, pipeline=name)
        # Proving changes nothing, so it is repeated when Airflow loses sight of it.
        ProveStream(task_id="prove", place=PLACE, goal=act.output)
