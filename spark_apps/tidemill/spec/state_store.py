"""State stores of stateful operators: `run.state_store`, and Spark's classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

StateStore = Literal["rocksdb", "memory"]

# Spark's setting, which it stores in the offsets of a new checkpoint, and its classes.
PROVIDER_SETTING = "spark.sql.streaming.stateStore.providerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
PROVIDERS: Mapping[StateStore, str] = {
    "rocksdb": f"{_PACKAGE}.RocksDBStateStoreProvider",
    "memory": f"{_PACKAGE}.HDFSBackedStateStoreProvider",
}


def store_of(provider: str) -> str:
    """Return the name of one of Spark's state store classes; the class itself if it has no name here."""
    return next((store for store, found in PROVIDERS.items() if found == provider), provider)
