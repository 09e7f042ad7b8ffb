"""Stand-ins for errors of Spark 4.2, py4j and Python workers, with only their text."""

# ruff: noqa: E501  # the texts are long where Spark's are

from __future__ import annotations


class Py4JJavaError(Exception):
    """Stands for py4j's: a Java error as text."""


class StreamingQueryException(Exception):  # noqa: N818  # Spark's name
    """Stands for Spark's."""


class PythonException(Exception):  # noqa: N818  # Spark's name
    """Stands for Spark's: what a Python worker raised, as text."""


class NumberFormatException(Exception):  # noqa: N818  # Spark's name
    """Stands for Spark's."""


class ParseException(Exception):  # noqa: N818  # Spark's name
    """Stands for Spark's."""


IN_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/work/spark_apps/transforms/orders.py", line 7, in price
    return 1 / quantity
           ~~^~~~~~~~~~
{error}
"""
IN_TASK = """An error occurred while calling o320.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/data/t. SQLSTATE: 58030
	at org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:843)
Caused by: {cause}
	... 1 more
"""
