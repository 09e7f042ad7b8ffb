"""How far a query is behind its source, of Spark's progress. Pure."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Partitions whose lag is told, those that are furthest behind: a topic may have thousands, and each is a time
# series of its own, in Prometheus and in a chart.
MOST_PARTITIONS = 20


@dataclass(frozen=True)
class PartitionLag:
    """Records of one partition that were not read yet, when the newest batch was planned."""

    topic: str
    partition: str
    records: int


def lag_of(progress: Mapping[str, Any]) -> list[PartitionLag] | None:
    """Of every partition of all sources; None if no source tells."""
    found = [lag for source in progress.get("sources", ()) for lag in _of_source(source)]
    return found or None


def total_lag(progress: Mapping[str, Any]) -> int | None:
    """Over all partitions; None if no source tells."""
    found = lag_of(progress)
    return None if found is None else sum(lag.records for lag in found)


def furthest_behind(found: Iterable[PartitionLag]) -> list[PartitionLag]:
    """The partitions that are told one by one."""
    return heapq.nlargest(MOST_PARTITIONS, found, key=lambda lag: lag.records)


def _of_source(source: Mapping[str, Any]) -> Iterable[PartitionLag]:
    end, latest = _document(source.get("endOffset")), _document(source.get("latestOffset"))
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return
    for topic, partitions in latest.items():
        if isinstance(partitions, dict):
            read = end.get(topic, {})
            for partition, offset in partitions.items():
                # Real-time mode reads on after it has asked for the newest offset.
                yield PartitionLag(topic, str(partition), max(0, offset - read.get(partition, 0)))


def _document(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value
