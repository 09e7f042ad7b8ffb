"""What holds the state of stateful operators: `run.state_store`, and what Spark calls it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

StateStore = Literal["rocksdb", "memory"]

# Spark's setting, which it pins in the offsets of a checkpoint that is born, and its classes.
PROVIDER_SETTING = "spark.sql.streaming.stateStore.providerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.state"
PROVIDERS: Mapping[StateStore, str] = {
    "rocksdb": f"{_PACKAGE}.RocksDBStateStoreProvider",
    "memory": f"{_PACKAGE}.HDFSBackedStateStoreProvider",
}


def store_of(provider: str) -> str:
    """Our word for one of Spark's classes; the class itself where we have none."""
    return next((store for store, found in PROVIDERS.items() if found == provider), provider)
