"""The Spark session of a driver."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from tidemill.engine.session_conf import session_conf
from tidemill.jars import s3_jars, spark_jars
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to
from tidemill.storage.object_stores import Access


def start_session(pipeline: Pipeline) -> SparkSession:
    """Start Spark with the jars that set-up put in place; nothing is downloaded."""
    # Spark's default is whatever `python3` is first on PATH, which may lack pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.config("spark.driver.extraClassPath", _class_path(pipeline))
    for name, value in session_conf(pipeline).items():
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
