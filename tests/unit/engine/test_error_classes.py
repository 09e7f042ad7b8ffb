"""The table of error classes is complete: it names each class of the jars that a driver can meet, and no other."""

# ruff: noqa: E501  # the texts are long where Spark's are

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.support.runbook_pages import runbook_pages
from tests.support.spark_errors import IN_TASK, Py4JJavaError, StreamingQueryException
from tidemill.engine.classify import classify
from tidemill.engine.diagnoses import DIAGNOSES, diagnosis_of, error_classes
from tidemill.jars import spark_jars

# Files with the error classes in the jars, and the classes of which the table names all members.
SPARK = "error/error-conditions.json"
WHOLE = (
    "error/delta-error-classes.json",
    "error/kafka-error-conditions.json",
    "error/kafka-token-provider-error-conditions.json",
)

# Spark's classes for what reading, state, sinks and Python workers do, by the words of their names.
GROUPS = re.compile(
    r"STATE_STORE|STATEFUL|STATE_REPARTITION|STATE_REWRITER|CANNOT_(LOAD|WRITE)_STATE|^STDS_|STREAM|CHECKPOINT|WATERMARK|"
    r"OFFSET|_LOG_|LOG_FILE|RENAME|FILE|DIRECTORY|DIRECTORIES|PARTITION_COLUMN|PARTITION_VALUE|PYTHON|PANDAS|UDF|"
    r"USER_FUNCTION|ARROW|PARQUET|AVRO|CSV|JSON|PROTOBUF|XML|WRITE|READ|MEMORY|EVENT_TIME|BATCH|SINK|SOURCE|"
    r"TRANSFORM_WITH_STATE|PATH_|CODEC|MERGE|DATA_FOR_TABLE|CHANGELOG|TRIGGER|KRYO|ROCKSDB|TASK|TWS|CONSTRAINT_VIOLATION"
)


@cache
def classes() -> dict[str, dict[str, Any]]:
    """Return the error classes of each file, without the numbers of messages that have no class."""
    found: dict[str, dict[str, Any]] = {}
    for jar in (*spark_jars(), *(Path(pyspark.__file__).parent / "jars").glob("*.jar")):
        if len(found) == len((SPARK, *WHOLE)):
            break
        with zipfile.ZipFile(jar) as archive:
            for file in {SPARK, *WHOLE} & {*archive.namelist()}:
                named = json.loads(archive.read(file))
                found[file] = {name: each for name, each in named.items() if not name.startswith("_LEGACY")}
    return found


def classes_of(file: str) -> dict[str, Any]:
    return classes()[file]


def unlisted(spark: dict[str, Any], *whole: dict[str, Any]) -> list[str]:
    """Return the classes that the table lacks."""
    wanted = [name for name in spark if GROUPS.search(name)] + [name for classes in whole for name in classes]
    return sorted(set(wanted) - set(error_classes()))


def known_names() -> Iterator[str]:
    for file in (SPARK, *WHOLE):
        for name, found in classes_of(file).items():
            yield name
            yield from (f"{name}.{subclass}" for subclass in found.get("subClass", {}))


def test_the_table_names_each_class_that_a_driver_can_meet() -> None:
    assert unlisted(classes_of(SPARK), *map(classes_of, WHOLE)) == []


def test_a_new_class_of_another_version_is_found() -> None:
    new = {"STATE_STORE_ON_THE_MOON": {"sqlState": "XXKST"}}
    assert unlisted(classes_of(SPARK) | new) == ["STATE_STORE_ON_THE_MOON"]
    assert unlisted({}, {"DELTA_ON_THE_MOON": {}}) == ["DELTA_ON_THE_MOON"]


def test_the_table_names_no_class_that_the_jars_lack() -> None:
    assert set(error_classes()) - set(known_names()) == set()


def test_each_id_of_the_table_has_a_diagnosis_with_a_fix() -> None:
    ids = set(error_classes().values()) - {"wrappers"}
    assert ids - set(DIAGNOSES) == set()
    pages = set(runbook_pages())
    assert {diagnosis.runbook for diagnosis in DIAGNOSES.values()} - {""} <= pages
    assert all(diagnosis.fix for diagnosis in DIAGNOSES.values())


def test_an_error_that_ends_with_a_new_id_has_a_runbook() -> None:
    """Exceptions are errors after which the driver continues by itself, and bugs."""
    bare = {error_id for error_id, diagnosis in DIAGNOSES.items() if not diagnosis.runbook}
    assert bare == {"TIDE-INT-001", "TIDE-SRC-006", "TIDE-SRC-007", "TIDE-SRC-009", "TIDE-SINK-002"}


@pytest.mark.parametrize(
    ("name", "state", "error_id", "exit_code"),
    [
        ("CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE", "58", "TIDE-CKPT-106", 65),
        ("CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY", "58", "TIDE-RUN-009", 70),
        ("FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER", "KD", "TIDE-SRC-011", 65),
        ("CONFLICTING_DIRECTORY_STRUCTURES", "KD", "TIDE-SRC-012", 65),
        ("DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG", "42", "TIDE-SRC-014", 65),
        ("DELTA_CANNOT_MODIFY_APPEND_ONLY", "42", "TIDE-SINK-025", 65),
        ("DELTA_CONCURRENT_APPEND.WITHOUT_HINT", "2D", "TIDE-SINK-002", 69),
        ("DELTA_MISSING_FILES_UNEXPECTED_VERSION", "42", "TIDE-SRC-013", 65),
        ("LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW", "", "TIDE-SRC-015", 69),
        ("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED", "", "TIDE-SRC-016", 64),
        ("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "XX", "TIDE-CKPT-107", 65),
        ("MALFORMED_LOG_FILE", "KD", "TIDE-CKPT-108", 65),
        ("DELTA_METADATA_MISMATCH", "42", "TIDE-SINK-026", 65),
        ("DELTA_TXN_LOG_FAILED_INTEGRITY", "XX", "TIDE-SINK-027", 65),
        ("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "56", "TIDE-SINK-028", 65),
        ("DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG", "56", "TIDE-RUN-010", 64),
        ("CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT", "58", "TIDE-STOR-008", 69),
        # A class of Spark that the table need not name.
        ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42", "TIDE-DATA-003", 65),
    ],
)
def test_a_class_ends_with_an_id(name: str, state: str, error_id: str, exit_code: int) -> None:
    diagnosis = diagnosis_of(name, state)
    assert diagnosis is not None
    assert (diagnosis.error_id, diagnosis.kind.exit_code) == (error_id, exit_code)


def test_the_error_below_a_wrapper_decides() -> None:
    cause = "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:/lake/a.parquet. SQLSTATE: KD001"
    for text in (
        IN_TASK.format(cause=cause),
        f"[STREAM_FAILED] Query [id = 1] terminated with exception: {cause}",
    ):
        found = classify(Py4JJavaError(text))
        assert (found.error_id, found.runbook) == ("TIDE-SRC-011", "files-unreadable")
        assert "file:/lake/a.parquet" in str(found.facts["reason"])


@pytest.mark.parametrize("end", [" SQLSTATE: KD009", "", "\n\nJVM stacktrace:"])
def test_the_reason_has_the_later_lines_of_a_message_and_nothing_of_the_trace(end: str) -> None:
    lines = "[CONFLICTING_DIRECTORY_STRUCTURES] Conflicting structures.\nSuspicious paths:\n\tfile:/lake/old"
    found = classify(Py4JJavaError(f"{lines}{end}\n\tat org.apache.spark.Some.where(Some.scala:1)"))
    assert found.error_id == "TIDE-SRC-012"
    words = "[CONFLICTING_DIRECTORY_STRUCTURES] Conflicting structures. Suspicious paths: file:/lake/old"
    assert found.facts["reason"] == f"{words}{end if 'SQLSTATE' in end else ''}"


def test_the_storage_decides_before_the_file_that_could_not_be_read_from_it() -> None:
    found = classify(
        StreamingQueryException(
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030\n"
            "Caused by: java.io.IOException: No space left on device"
        )
    )
    assert found.error_id == "TIDE-STOR-003"


def test_a_state_that_cannot_be_loaded_is_reported_with_its_file() -> None:
    found = classify(
        StreamingQueryException(
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030\n"
            "\tat org.apache.spark.X.y(X.scala:1)\n"
            "Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/lake/4_a.changelog at 0\n"
            "Caused by: java.lang.IllegalStateException: of a record"
        )
    )
    assert (found.error_id, found.runbook) == ("TIDE-CKPT-106", "checkpoint-state-lost")
    assert str(found.facts["reason"]).endswith("Checksum error: file:/lake/4_a.changelog at 0")


def test_a_class_in_the_words_of_a_record_decides_nothing() -> None:
    found = classify(
        Py4JJavaError(
            "[CAST_INVALID_INPUT] The value '[DELTA_CANNOT_MODIFY_APPEND_ONLY] x SQLSTATE: 42809' cannot be cast. SQLSTATE: 22018"
        )
    )
    assert found.error_id == "TIDE-DATA-003"
    assert "APPEND_ONLY" not in str(found.facts["reason"])
