"""The Spark session of a driver."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tidemill.engine.driver_pod import DriverPod
from tidemill.engine.kubernetes_conf import uses_executors
from tidemill.engine.leftover_executors import remove_leftover_executors
from tidemill.engine.session_conf import Mode, session_conf
from tidemill.jars import s3_jars, spark_jars
from tidemill.spec.pod import executor_pod
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to
from tidemill.storage.object_stores import Access


def start_session(pipeline: Pipeline, pod: DriverPod | None = None, mode: Mode = "stream") -> SparkSession:
    """Start Spark with the jars that set-up put in place; nothing is downloaded.

    Args:
        pipeline: What will run.
        pod: The driver's own, which may have executors; without one, Spark works alone in this process.
        mode: How the pipeline runs.
    """
    # Spark's default is whatever `python3` is first on PATH, which may lack pyarrow. Executors use the same
    # path: theirs is the same image.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if pod is not None and uses_executors(pipeline, pod):
        remove_leftover_executors(pod)
        template = executor_pod(pipeline, mode, pod.executor_labels)
        # Spark would do this by spark.kubernetes.driver.pod.name, but then waits for the driver to be ready,
        # which it is after its first batch.
        template["metadata"]["ownerReferences"] = [pod.owner_reference]
        Path(pod.template_file).write_text(json.dumps(template), encoding="utf-8")
    class_path = _class_path(pipeline)
    builder = SparkSession.builder.config("spark.driver.extraClassPath", class_path)
    builder = builder.config("spark.executor.extraClassPath", class_path)
    for name, value in session_conf(pipeline, pod, mode).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # At DEBUG, Spark's Kafka source and SQL parser print passwords; WARN also keeps the log readable.
    session.sparkContext.setLogLevel("WARN")
    reach_storage(session, access_to(pipeline.layout.root))
    return session


def reach_storage(session: SparkSession, access: Access) -> None:
    """Give Spark the access to the storage root.

    Not among the settings it is started with: those stand on the JVM's command line, for all to read.
    """
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    for name, value in access.hadoop.items():
        hadoop.set(name, value)


def _class_path(pipeline: Pipeline) -> str:
    on_s3 = pipeline.layout.root.startswith("s3a://")
    return ":".join(map(str, [*spark_jars(), *(s3_jars() if on_s3 else [])]))
