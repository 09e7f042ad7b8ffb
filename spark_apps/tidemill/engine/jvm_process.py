"""The JVM of Spark, a separate process next to this Python process."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemill.errors import InternalError


def jvm_has_ended(session: SparkSession) -> bool:
    """Return True if the session's JVM has ended."""
    process = getattr(session.sparkContext._gateway, "proc", None)  # no public way
    return process is not None and process.poll() is not None


def check_jvm(session: SparkSession, error: Exception) -> None:
    """Refuse to continue without a JVM, because no retry in this process can start it again.

    Python would see `Connection refused` from Spark itself. This must not be mistaken for an unavailable
    source, for which the driver would wait without end.

    Raises:
        InternalError: TIDE-RUN-002, from `error`, if the JVM has ended.
    """
    if not jvm_has_ended(session):
        return
    raise InternalError(
        "TIDE-RUN-002",
        "The JVM in which Spark runs has ended under the driver.",
        facts={"exit_code": session.sparkContext._gateway.proc.returncode},  # type: ignore[union-attr]
        fix="the next start repeats the batch; if it comes again, see the end of the driver's log; -9 means "
        "killed, as the kernel does with what is too large for its memory: choose a larger size",
    ) from error
