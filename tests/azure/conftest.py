"""The hubs that the variables name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.lake import Lake

HUB = {
    "namespace": "TIDEMILL_AZURE_NAMESPACE",
    "hub": "TIDEMILL_AZURE_HUB",
    "connection": "TIDEMILL_AZURE_CONNECTION",
}
IOT_HUB = {
    "namespace": "TIDEMILL_AZURE_IOTHUB_NAMESPACE",
    "hub": "TIDEMILL_AZURE_IOTHUB_HUB",
    "connection": "TIDEMILL_AZURE_IOTHUB_CONNECTION",
}


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    return Lake(tmp_path / "lake", spark)


@pytest.fixture
def event_hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return source_of(HUB, monkeypatch)


@pytest.fixture
def iot_hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return source_of(IOT_HUB, monkeypatch)


def source_of(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a source as a pipeline declares it, and put its secret where a driver finds it."""
    missing = [name for name in variables.values() if not os.environ.get(name)]
    assert not missing, f"set {', '.join(missing)}: see tests/azure/README.md"
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", os.environ[variables["connection"]])
    return {
        "namespace": os.environ[variables["namespace"]],
        "hub": os.environ[variables["hub"]],
        "auth": {"connection_string": "hub-connection"},
    }
