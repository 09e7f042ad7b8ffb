"""The Spark session of a driver."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from tidemill.engine.session_conf import session_conf
from tidemill.jars import spark_jars
from tidemill.spec.project import Pipeline


def start_session(pipeline: Pipeline) -> SparkSession:
    """Start Spark with the jars that set-up put in place; nothing is downloaded."""
    # Spark's default is whatever `python3` is first on PATH, which may lack pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.config("spark.driver.extraClassPath", ":".join(map(str, spark_jars())))
    for name, value in session_conf(pipeline).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    # At DEBUG, Spark's Kafka source and SQL parser print passwords; WARN also keeps the log readable.
    session.sparkContext.setLogLevel("WARN")
    return session
