"""# One stream: start, stop, restart, suspend or resume

**Does:** Runs by hand. `act` records the desired state and requests it from the driver. A stop lasts until an
operator starts the stream again. `prove` waits, without a worker, for the proof. `tidemill_streams` starts a
suspended stream again when `until` has passed; `resume` starts it at once. The last request wins: a start
ends a suspension, and a stop makes a suspension permanent.

**Healthy:** Start, restart and resume end after the new driver has committed a batch or has reported an empty
source. Stop and suspend end with the driver's receipt. `prove` returns the evidence.

**Not healthy:** `prove` fails with the driver's error and the path of its log. A stop that had to be forced
fails as well. The next start then repeats the interrupted batch, and no data is lost.
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
        # Runs by hand only, so there is no reason to start paused.
        is_paused_upon_creation=False,
        # A paused DAG accepts a request and never runs it.
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
        # Proving changes nothing, so it can be repeated when Airflow loses track of the task.
        ProveStream(task_id="prove", place=PLACE, goal=act.output)
