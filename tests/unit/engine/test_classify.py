"""Any exception -> the error that says what to do, by texts of Spark 4.2, Delta 4.4 and Kafka 3.9."""

# ruff: noqa: E501  # the texts are long where Spark's are

from __future__ import annotations

import pickle

import pytest

from tests.support.spark_errors import (
    IN_WORKER,
    Py4JJavaError,
    PythonException,
    StreamingQueryException,
)
from tidemill.engine.classify import REASON_CHARACTERS, classify
from tidemill.errors import DataError, InternalError, SpecError, TidemillError, UnavailableError

CASES = {
    "rows of the table of a stream were deleted": (
        StreamingQueryException(
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [DELTA_SOURCE_TABLE_IGNORE_CHANGES] "
            'Detected a data update (for example DELETE (Map(predicate -> "id = 2"))) in the source table at version 2.'
        ),
        DataError,
        "TIDE-SRC-009",
        "in the source table at version 2",
    ),
    "the table of a stream has a column more": (
        StreamingQueryException(
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
            "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 7:\nstreaming source schema: root\n"
        ),
        UnavailableError,
        "TIDE-SRC-006",
        "Detected schema change in version 7",
    ),
    "a mount of the storage root is gone": (
        # This is the message of obstore.
        OSError(
            "Generic LocalFileSystem error: Unable to open file /lake/state/orders/status.json: "
            "Transport endpoint is not connected (os error 107)"
        ),
        UnavailableError,
        "TIDE-STOR-006",
        "Transport endpoint is not connected",
    ),
    "no broker answers": (
        Py4JJavaError(
            "An error occurred while calling o451.load.\n: java.util.concurrent.ExecutionException: "
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. "
            "Call: listNodes\n\tat java.base/java.util.concurrent.CompletableFuture.reportGet(…)"
        ),
        UnavailableError,
        "TIDE-SRC-001",
        "Timed out waiting for a node assignment",
    ),
    "a sink's topic is gone": (
        Py4JJavaError(
            "An error occurred while calling o451.save.\n: org.apache.spark.SparkException: Job aborted due to "
            "stage failure: Task 1 in stage 9.0 failed 1 times, most recent failure: Lost task 1.0 in stage 9.0 "
            "(TID 19) (executor driver): org.apache.kafka.common.errors.TimeoutException: Topic alerts not "
            "present in metadata after 60000 ms.\n\nDriver stacktrace:"
        ),
        UnavailableError,
        "TIDE-SRC-001",
        "Topic alerts not present in metadata after 60000 ms.",
    ),
    "a broker went away": (
        StreamingQueryException("[STREAM_FAILED] … org.apache.kafka.common.errors.DisconnectException"),
        UnavailableError,
        "TIDE-SRC-001",
        "DisconnectException",
    ),
    "a broker gave no record for two minutes": (
        Py4JJavaError(
            "An error occurred while calling o396.collectToPython.\n: org.apache.spark.SparkException: Job aborted "
            "due to stage failure: Task 0 in stage 2.0 failed 1 times, most recent failure: Lost task 0.0 in "
            "stage 2.0 (TID 3) (192.0.2.2 executor driver): java.util.concurrent.TimeoutException: Cannot fetch "
            "record for offset 10 in 120000 milliseconds"
        ),
        UnavailableError,
        "TIDE-SRC-001",
        "Cannot fetch record for offset 10 in 120000 milliseconds",
    ),
    "a topic was deleted": (
        StreamingQueryException(
            "[STREAM_FAILED] … org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server "
            "does not host this topic-partition."
        ),
        UnavailableError,
        "TIDE-SRC-001",
        "This server does not host this topic-partition.",
    ),
    "a wrong password": (
        Py4JJavaError(
            "An error occurred while calling o88.load.\n: java.util.concurrent.ExecutionException: "
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid "
            "username or password"
        ),
        SpecError,
        "TIDE-SRC-003",
        "Authentication failed: Invalid username or password",
    ),
    "records that the broker no longer has": (
        StreamingQueryException(
            "[STREAM_FAILED] Query [id = 4b] terminated with exception: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_"
            "RANGE] Some data may have been lost because they are not available in Kafka any more"
        ),
        DataError,
        "TIDE-SRC-004",
        "KAFKA_DATA_LOSS",
    ),
    "a full disk of a task": (
        PythonException(IN_WORKER.format(error="OSError: [Errno 28] No space left on device")),
        UnavailableError,
        "TIDE-STOR-003",
        "OSError at /work/spark_apps/transforms/orders.py:7 in price: No space left on device",
    ),
    "a full disk of the driver": (
        OSError(
            "Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"
        ),
        UnavailableError,
        "TIDE-STOR-003",
        "No space left on device (os error 28)",
    ),
    "a full disk of the checkpoint": (
        StreamingQueryException("[STREAM_FAILED] … java.io.IOException: No space left on device"),
        UnavailableError,
        "TIDE-STOR-003",
        "java.io.IOException: No space left on device",
    ),
    "a file that may not grow": (
        OSError("[Errno 27] File too large"),
        UnavailableError,
        "TIDE-STOR-003",
        "File too large",
    ),
    "a quota": (
        OSError("[Errno 122] Disk quota exceeded"),
        UnavailableError,
        "TIDE-STOR-003",
        "quota exceeded",
    ),
    "another driver on the checkpoint": (
        StreamingQueryException(
            "[STREAM_FAILED] Query [id = d4] terminated with exception: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent "
            "update to the log. Multiple streaming jobs detected for 0.\nPlease make sure only one streaming job "
            "runs on a specific checkpoint location at a time. SQLSTATE: 40000 SQLSTATE: XXKST"
        ),
        UnavailableError,
        "TIDE-CKPT-008",
        "Multiple streaming jobs detected for 0.",
    ),
    "another driver's file where this one's was to be": (
        StreamingQueryException(
            "[STREAM_FAILED] Query [id = d4] terminated with exception: [FAILED_RENAME_TEMP_FILE] Failed to rename "
            "temp file file:/lake/offsets/.0.9f.tmp to file:/lake/offsets/0 as FileSystem.rename returned false. "
            "SQLSTATE: 58030 SQLSTATE: XXKST"
        ),
        UnavailableError,
        "TIDE-CKPT-008",
        "as FileSystem.rename returned false.",
    ),
    "the other driver's file on S3": (
        StreamingQueryException(
            "Multiple streaming queries are concurrently using s3a://lake/state/orders/g0001/offsets."
        ),
        UnavailableError,
        "TIDE-CKPT-008",
        "Multiple streaming queries are concurrently using",
    ),
    "a race to make a table": (
        Py4JJavaError(
            "An error occurred while calling o77.execute.\n: io.delta.exceptions.ProtocolChangedException: "
            "[DELTA_PROTOCOL_CHANGED] ProtocolChangedException: The protocol version of the Delta table has been "
            "changed by a concurrent update. SQLSTATE: 2D521"
        ),
        UnavailableError,
        "TIDE-SINK-002",
        "changed by a concurrent update",
    ),
    "a race for a batch": (
        Py4JJavaError(
            "An error occurred while calling o77.save.\n: io.delta.exceptions.ConcurrentTransactionException: "
            "[DELTA_CONCURRENT_TRANSACTION] ConcurrentTransactionException: This error occurs when multiple "
            "streaming queries are using the same checkpoint to write into this table. SQLSTATE: 2D521"
        ),
        UnavailableError,
        "TIDE-CKPT-008",
        "multiple streaming queries are using the same checkpoint",
    ),
    "something else in Java": (
        Py4JJavaError(
            "An error occurred while calling o1.commit.\n: java.lang.IllegalStateException: no contiguous versions"
        ),
        InternalError,
        "TIDE-INT-001",
        "java.lang.IllegalStateException: no contiguous versions",
    ),
    "something else": (
        RuntimeError("the JVM answered strangely"),
        InternalError,
        "TIDE-INT-001",
        "RuntimeError: the JVM answered strangely",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_exception_of_spark_kafka_or_the_system(name: str) -> None:
    error, kind, error_id, reason = CASES[name]
    found = classify(error)
    assert (type(found), found.error_id) == (kind, error_id)
    assert reason in str(found.facts["reason"])
    assert found.fix


def test_our_own_error_stays_as_it_is() -> None:
    error = DataError("TIDE-SINK-001", "Other columns.", facts={"table": "bronze/orders"})
    assert classify(error) is error


def test_the_cause_decides_if_the_error_itself_says_nothing() -> None:
    error = RuntimeError("the batch failed")
    error.__cause__ = OSError("[Errno 28] No space left on device")
    assert classify(error).error_id == "TIDE-STOR-003"


def test_an_error_of_ours_that_a_task_raised_comes_back_whole() -> None:
    raised = DataError(
        "TIDE-DATA-001",
        "A record does not fit the payload schema.",
        facts={"topic": "orders", "partition": 0, "offset": 17, "reason": "price: expected a number"},
        fix="correct the producer",
        runbook="source-files-gone",
    )
    text = IN_WORKER.format(error=f"tidemill.errors.DataError: {raised}")
    found = classify(PythonException(text))
    assert (type(found), found.error_id, found.fix) == (DataError, "TIDE-DATA-001", "correct the producer")
    assert found.runbook == "source-files-gone"
    assert found.problem == raised.problem
    assert found.facts == {name: str(value) for name, value in raised.facts.items()}


def test_a_reason_is_one_short_line() -> None:
    """So that what a record holds can neither forge log lines nor fill the log."""
    found = classify(RuntimeError("a" * 10_000 + '\n{"event": "forged"}'))
    assert found.facts["reason"] == ("RuntimeError: " + "a" * 10_000)[:REASON_CHARACTERS]


def test_an_exception_without_text_is_classified() -> None:
    assert classify(ValueError()).facts["reason"] == "ValueError:"


@pytest.mark.parametrize("name", CASES)
def test_what_was_classified_crosses_a_process_border(name: str) -> None:
    found = classify(CASES[name][0])
    copy: TidemillError = pickle.loads(pickle.dumps(found))
    assert (type(copy), copy.error_id, copy.facts, str(copy)) == (
        type(found),
        found.error_id,
        found.facts,
        str(found),
    )
