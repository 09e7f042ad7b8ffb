"""The JVM that Spark runs in, beside this process' Python."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemill.errors import InternalError


def jvm_has_ended(session: SparkSession) -> bool:
    """Whether the session's JVM is gone."""
    process = getattr(session.sparkContext._gateway, "proc", None)  # no public way
    return process is not None and process.poll() is not None


def check_jvm(session: SparkSession, error: Exception) -> None:
    """Refuse to go on without a JVM: no try in this process can bring it back.

    Python then hears `Connection refused` from Spark itself, which must not be taken for a source that is
    away and waited for without end.

    Raises:
        InternalError: TIDE-RUN-002, from `error`, if the JVM is gone.
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
