"""The lag of a query behind its source, from Spark's progress. Pure."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Maximum number of partitions whose lag is reported, largest lag first. A topic may have thousands, and each
# is a separate time series in Prometheus and in a chart.
MOST_PARTITIONS = 20


@dataclass(frozen=True)
class PartitionLag:
    """Number of unread records of one partition when the newest batch was planned."""

    topic: str
    partition: str
    records: int


def lag_of(progress: Mapping[str, Any]) -> list[PartitionLag] | None:
    """Return the lag of each partition of all sources; None if no source reports it."""
    found = [lag for source in progress.get("sources", ()) for lag in _of_source(source)]
    return found or None


def total_lag(progress: Mapping[str, Any]) -> int | None:
    """Return the lag over all partitions; None if no source reports it."""
    found = lag_of(progress)
    return None if found is None else sum(lag.records for lag in found)


def furthest_behind(found: Iterable[PartitionLag]) -> list[PartitionLag]:
    """Return the partitions with the largest lag, which are reported one by one."""
    return heapq.nlargest(MOST_PARTITIONS, found, key=lambda lag: lag.records)


def _of_source(source: Mapping[str, Any]) -> Iterable[PartitionLag]:
    end, latest = _document(source.get("endOffset")), _document(source.get("latestOffset"))
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return
    for topic, partitions in latest.items():
        if isinstance(partitions, dict):
            read = end.get(topic, {})
            for partition, offset in partitions.items():
                # The difference may be negative, because real-time mode reads on after it has requested the
                # newest offset.
                yield PartitionLag(topic, str(partition), max(0, offset - read.get(partition, 0)))


def _document(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value
