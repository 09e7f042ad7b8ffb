"""Rows of a topic that was replaced: the same offsets are other records now."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.backfill.refusal import refused
from tidemill.checkpoint.gate import TopicFacts
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import read_commits
from tidemill.ledger.standing import standing_commits
from tidemill.names import ASIDE_OUTPUTS
from tidemill.spec.project import Pipeline


def check_same_topics(pipeline: Pipeline, found: TopicFacts) -> None:
    """Raise if offsets or windows are to be replaced that contain rows of former topics.

    Args:
        pipeline: Pipeline that writes the tables.
        found: Current facts from the broker.

    Raises:
        UsageError: TIDE-BACK-017.
    """
    layout = pipeline.layout
    paths = [layout.table(sink.table) for sink in pipeline.spec.delta_sinks]
    paths += [layout.aside(output, pipeline.name) for output in ASIDE_OUTPUTS]
    for path in paths:
        for entry in _own(pipeline, path):
            former = _former(entry, found)
            if former:
                raise refused(
                    "TIDE-BACK-017",
                    pipeline.name,
                    "The table holds rows of a topic that was deleted and made again, or of another cluster. "
                    "The same offsets are other records now, and would take their place.",
                    {"table": path, "batch_id": entry.batch_id, **former},
                    "keep these tables, and let the pipeline write new ones",
                )


def _own(pipeline: Pipeline, path: str) -> Iterator[LedgerEntry]:
    for commit in standing_commits(read_commits(path)):
        if commit.entry is not None and commit.entry.pipeline == pipeline.name:
            yield commit.entry


def _former(entry: LedgerEntry, found: TopicFacts) -> dict[str, object]:
    """Return the cluster or topic that was another one when the batch was read."""
    for read in entry.sources.values():
        if read.cluster and found.cluster and read.cluster != found.cluster:
            return {"cluster": read.cluster, "cluster_now": found.cluster}
        for topic, known in (read.topic_ids or {}).items():
            if found.ids.get(topic, known) != known:
                return {"topic": topic, "topic_id": known, "topic_id_now": found.ids[topic]}
    return {}
