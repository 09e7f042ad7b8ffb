"""Settings of Spark's UI: off, or on the loopback interface of the driver's machine or pod, without kill.

The UI has neither login nor encryption. So only this machine can reach it, or in a pod, users who may run
`kubectl port-forward`, which ends on the pod's loopback interface. No Service and no network policy includes
its port. Options and settings are redacted by name (`session_conf.py`). Literals in a transform are visible
in the plan graphs, which Spark never redacts.
"""

from __future__ import annotations

from tidemill.engine.driver_pod import LOOPBACK, DriverPod
from tidemill.spec.project import Pipeline

# The interface that the UI binds to. Spark reads it only from the environment; the default is all interfaces.
# Where a driver has executors, they reach it by `spark.driver.host` and `bindAddress`, which take precedence.
LOCAL_ADDRESS_VARIABLE = "SPARK_LOCAL_IP"

# A pod has one driver. On a laptop any free port, because Spark gives up after 16 used ports.
POD_PORT = 4040

# Limits for the UI's history, in the driver's heap. Spark's defaults (1000 jobs and plans, 100,000 tasks)
# take some hundred MB, and a stream fills them within hours.
_KEPT = {
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.streaming.ui.retainedProgressUpdates": "100",
    "spark.sql.streaming.ui.retainedQueries": "10",
}


def ui_conf(pipeline: Pipeline, pod: DriverPod | None) -> dict[str, str]:
    """Return the settings of the UI."""
    if not pipeline.spark_ui:
        return {"spark.ui.enabled": "false"}
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0" if pod is None else str(POD_PORT),
        "spark.ui.killEnabled": "false",
        # A thread dump or heap histogram briefly stops the driver.
        "spark.ui.threadDumpsEnabled": "false",
        "spark.ui.heapHistogramEnabled": "false",
        **_KEPT,
    }


def ui_variables(pipeline: Pipeline) -> dict[str, str]:
    """Return the environment variables that the UI's JVM needs."""
    return {LOCAL_ADDRESS_VARIABLE: LOOPBACK} if pipeline.spark_ui else {}
