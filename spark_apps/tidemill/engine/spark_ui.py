"""Spark's own UI: off, or on the loopback interface of the driver's machine or pod, and without kill.

It has neither login nor encryption. So nobody but this machine reaches it; in a pod, whoever may
`kubectl port-forward`, which ends on the pod's loopback interface. No Service and no network policy knows it.
Options and settings are redacted by name (`session_conf.py`); what a transform holds as a literal is shown in
the graphs of plans, which Spark redacts nowhere.
"""

from __future__ import annotations

from tidemill.engine.driver_pod import LOOPBACK, DriverPod
from tidemill.spec.project import Pipeline

# The interface that the UI binds to. Spark takes it from the environment only; without, it is all of them.
# Where a driver has executors, they reach it by `spark.driver.host` and `bindAddress`, which come first.
LOCAL_ADDRESS_VARIABLE = "SPARK_LOCAL_IP"

# In a pod there is one driver. On a laptop any free port: Spark ends a process that finds none in 16.
POD_PORT = 4040

# What the UI remembers, in the driver's heap; Spark's defaults (1000 jobs and plans, 100,000 tasks) are some
# hundred MB, and a stream fills them within hours.
_KEPT = {
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.streaming.ui.retainedProgressUpdates": "100",
    "spark.sql.streaming.ui.retainedQueries": "10",
}


def ui_conf(pipeline: Pipeline, pod: DriverPod | None) -> dict[str, str]:
    """Settings of the UI."""
    if not pipeline.spark_ui:
        return {"spark.ui.enabled": "false"}
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0" if pod is None else str(POD_PORT),
        "spark.ui.killEnabled": "false",
        # A thread dump or a histogram of the heap stops the driver for a moment.
        "spark.ui.threadDumpsEnabled": "false",
        "spark.ui.heapHistogramEnabled": "false",
        **_KEPT,
    }


def ui_variables(pipeline: Pipeline) -> dict[str, str]:
    """Variables that the JVM needs for it."""
    return {LOCAL_ADDRESS_VARIABLE: LOOPBACK} if pipeline.spark_ui else {}
