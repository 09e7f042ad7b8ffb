"""The Spark session of a driver."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaPackage, JVMView  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import SparkSession

from tidemill.engine.driver_pod import DriverPod
from tidemill.engine.kubernetes_conf import uses_executors
from tidemill.engine.leftover_executors import remove_leftover_executors
from tidemill.engine.log_lines import quote_no_record
from tidemill.engine.session_conf import Mode, session_conf
from tidemill.engine.spark_ui import ui_variables
from tidemill.jars import s3_jars, spark_jars
from tidemill.spec.pod import executor_pod
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to
from tidemill.storage.object_stores import Access

# Log configuration of the JVMs. Executors find it at the same path, because they use the same image.
LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")


def start_session(pipeline: Pipeline, pod: DriverPod | None = None, mode: Mode = "stream") -> SparkSession:
    """Start Spark with the jars from set-up; nothing is downloaded.

    Args:
        pipeline: The pipeline to run.
        pod: The driver's pod, which may have executors; None if Spark runs in this process alone.
        mode: Mode of the pipeline.
    """
    # Spark's default is the first `python3` on PATH, which may lack pyarrow. Executors have the same path,
    # because they use the same image.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Java decodes file names with the encoding of the locale, and cannot open `ü.json` in the locale C.
    os.environ["LC_ALL"] = "C.UTF-8"
    os.environ.update(ui_variables(pipeline))
    if pod is not None and uses_executors(pipeline, pod):
        remove_leftover_executors(pod)
        template = executor_pod(pipeline, mode, pod.executor_labels)
        # Spark would do this by spark.kubernetes.driver.pod.name, but would then wait until the driver is
        # ready, which is after its first batch.
        template["metadata"]["ownerReferences"] = [pod.owner_reference]
        Path(pod.template_file).write_text(json.dumps(template), encoding="utf-8")
    class_path = _class_path(pipeline)
    builder = SparkSession.builder.config("spark.driver.extraClassPath", class_path)
    builder = builder.config("spark.executor.extraClassPath", class_path)
    # As a URI, because a space in the path would end the option.
    java_options = f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}"
    builder = builder.config("spark.driver.extraJavaOptions", java_options)
    builder = builder.config("spark.executor.extraJavaOptions", java_options)
    for name, value in session_conf(pipeline, pod, mode).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    quote_no_record()
    _keep_names(session._jvm)
    reach_storage(session, access_to(pipeline.layout.root))
    return session


def reach_storage(session: SparkSession, access: Access) -> None:
    """Give Spark access to the storage root.

    The credentials are not among the start settings, because those are on the JVM's command line, where
    everyone can read them.
    """
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    for name, value in access.hadoop.items():
        hadoop.set(name, value)


class _KeptPackage(JavaPackage):  # type: ignore[misc]  # py4j has no types
    """A Java package that asks the JVM only once for each of its names."""

    def __getattr__(self, name: str) -> Any:
        return _keep(self, name, super().__getattr__(name))


class _KeptView(JVMView):  # type: ignore[misc]
    """The view of the JVM that looks up each name only once."""

    def __getattr__(self, name: str) -> Any:
        return _keep(self, name, super().__getattr__(name))


def _keep(place: JVMView | JavaPackage, name: str, found: Any) -> Any:
    if isinstance(found, JavaPackage):
        found.__class__ = _KeptPackage
    vars(place)[name] = found
    return found


def _keep_names(jvm: JVMView) -> None:
    """Look up each name of a package or class only once.

    py4j forgets each name. It searches all jars for a class `org`, then for `org.apache`, before it treats
    them as packages. This takes a tenth of the processor time of a busy driver, and a fifth of that of a
    short one.
    """
    jvm.__class__ = _KeptView


def _class_path(pipeline: Pipeline) -> str:
    on_s3 = pipeline.layout.root.startswith("s3a://")
    return ":".join(map(str, [*spark_jars(), *(s3_jars() if on_s3 else [])]))
