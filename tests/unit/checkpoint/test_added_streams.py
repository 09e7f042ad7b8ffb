"""Going back to before one of several streams was added: what was read of it is read again, or nothing is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import checkpoint_files
from tests.support.checkpoints import write_checkpoint
from tests.support.declared import declared
from tests.support.gate_facts import errors_of
from tidemill.checkpoint.gate import CheckpointFacts, gather_cut
from tidemill.checkpoint.gate.source_facts import ReadSince
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

ORDERS = {"orders": {"0": 10}}
FILES = {"files": {"path": "in", "format": "text"}}
TOPIC = {"kafka": {"topic": "payments", "starting_offsets": "latest"}}


def adding(folder: Path, source: dict[str, Any]) -> Pipeline:
    """Declare a pipeline with the stream `orders` and the added stream `added`."""
    sources = {"orders": {"kafka": {"topic": "orders"}}, "added": source}
    document = {"sources": sources, "source": None, "transform": "orders:transform"}
    (folder / "spark_apps/transforms").mkdir(parents=True)
    (folder / "spark_apps/transforms/orders.py").touch()
    return declared(folder, **document, sinks=[{"console": {}}])


def ran(pipeline: Pipeline, generation: str, *ends: dict[str, Any], sources: dict[str, bytes]) -> Path:
    """Return a checkpoint whose batch N ends at these offsets of each stream."""
    checkpoint = Path(pipeline.layout.checkpoint("orders", generation))
    write_checkpoint(checkpoint, [], range(len(ends)))
    (checkpoint / "sources/0/0").unlink()
    (checkpoint / "sources/0").rmdir()
    for number, found in enumerate(ends):
        lines = [f"{name}:{json.dumps(end)}" for name, end in found.items()]
        head = checkpoint_files.planned().replace(b"v1", b"v2", 1).decode()
        (checkpoint / f"offsets/{number}").write_text("\n".join([head, *lines]))
    for name, content in {"orders/0": checkpoint_files.initial_offsets(ORDERS), **sources}.items():
        (checkpoint / "sources" / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / "sources" / name).write_bytes(content)
    return checkpoint


def reader(pipeline: Pipeline, generation: str) -> CheckpointReader:
    path = pipeline.layout.checkpoint("orders", generation)
    return CheckpointReader(Store(pipeline.layout.root), path)


def taken_back(pipeline: Pipeline, origin: str, live: str) -> CheckpointFacts:
    """Batch 0 of a generation stays, and all that the live one has read since is read again."""
    return gather_cut(reader(pipeline, origin), pipeline, 0, ReadSince(reader(pipeline, live), 1))


def missing(facts: CheckpointFacts) -> list[tuple[str, Any]]:
    return [(finding.finding_id, finding.facts["missing"]) for finding in errors_of(facts)]


def test_its_files_must_be_there(tmp_path: Path) -> None:
    pipeline = adding(tmp_path, FILES)
    file = Path(pipeline.layout.root) / "in/a.txt"
    file.parent.mkdir(parents=True)
    file.write_text("x")
    log = json.dumps({"path": file.as_uri(), "timestamp": 1_700_000_000_000, "batchId": 0})
    ends: list[dict[str, Any]] = [{"orders": ORDERS}, {"orders": ORDERS, "added": {"logOffset": 0}}]
    ran(pipeline, "g0001", *ends, sources={"added/0": f"v1\n{log}".encode()})
    assert not missing(taken_back(pipeline, "g0001", "g0001"))
    file.unlink()
    assert missing(taken_back(pipeline, "g0001", "g0001")) == [("TIDE-CKPT-024", [file.as_uri()])]


@pytest.mark.parametrize("origin", ["g0001", "g0002"])
def test_its_topic_begins_where_it_began(tmp_path: Path, origin: str) -> None:
    """Spark would begin at the end of the topic, after records whose rows are taken back."""
    pipeline = adding(tmp_path, TOPIC)
    began = {"payments": {"0": 7}}
    ran(pipeline, "g0001", {"orders": ORDERS}, sources={})
    ends: list[dict[str, Any]] = [{"orders": ORDERS}, {"orders": ORDERS, "added": {"payments": {"0": 9}}}]
    ran(pipeline, "g0002", *ends, sources={"added/0": checkpoint_files.initial_offsets(began)})
    facts = taken_back(pipeline, origin, "g0002")
    if origin == "g0002":
        assert not missing(facts)
        assert facts.sources["added"].initial == began
    else:
        assert missing(facts) == [("TIDE-CKPT-024", ["sources/added/0"])]
        folder = Path(reader(pipeline, origin).path) / "sources/added"
        folder.mkdir()
        (folder / "0").write_bytes(checkpoint_files.initial_offsets(began))
        assert not missing(taken_back(pipeline, origin, "g0002"))
