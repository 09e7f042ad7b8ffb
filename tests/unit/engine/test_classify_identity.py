"""Errors for a pod's identity, classified by the messages of storage in obstore and Hadoop."""

from __future__ import annotations

import pickle

import pytest

from tidemill.engine.classify import classify
from tidemill.errors import SpecError, TidemillError, UnavailableError


class GenericError(Exception):
    """Stands for obstore's."""


class Py4JJavaError(Exception):
    """Stands for py4j's: a Java error as text."""


EXCHANGE = (
    "Generic MicrosoftAzure error: Error performing token request: Error performing POST "
    "https://login.microsoftonline.com/6/oauth2/v2.0/token in %s - Server returned non-2xx status code: %s"
)

CASES = {
    "a pod's identity is refused": (
        GenericError(EXCHANGE % ("1ms", '401 Unauthorized: {"error":"invalid_client"}')),
        SpecError,
        "TIDE-STOR-005",
        "invalid_client",
    ),
    "who hands out tokens does not answer": (
        GenericError(EXCHANGE % ("3s, after 10 retries, max_retries: 10", "503 Service Unavailable")),
        UnavailableError,
        "TIDE-STOR-004",
        "503",
    ),
    "an executor has no proof of its pod's identity": (
        Py4JJavaError(
            "An error occurred while calling o320.save.\n: org.apache.spark.SparkException: "
            "[TASK_WRITE_FAILED] Task failed while writing rows to file:/data/t. SQLSTATE: 58030\n\tat "
            "org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError"
            "(QueryExecutionErrors.scala:843)\n"
            "Caused by: java.io.IOException: Error reading token file at specified path: "
            "/var/run/secrets/azure/tokens/azure-identity-token\n\t... 1 more\n"
        ),
        SpecError,
        "TIDE-STOR-005",
        "Error reading token file",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_storage_says_of_an_identity(name: str) -> None:
    error, kind, error_id, reason = CASES[name]
    found = classify(error)
    assert (type(found), found.error_id) == (kind, error_id)
    assert reason in str(found.facts["reason"])
    assert found.fix
    copy: TidemillError = pickle.loads(pickle.dumps(found))
    assert (type(copy), copy.error_id, str(copy)) == (kind, error_id, str(found))
