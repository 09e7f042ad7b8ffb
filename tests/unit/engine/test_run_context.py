"""A driver's ledger entry for the batch that it is about to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checkpoints import write_checkpoint, write_planned
from tests.support.declared import declared
from tidemill.checkpoint.gate import TopicFacts
from tidemill.engine.drain import Drain
from tidemill.engine.run_context import RunContext
from tidemill.ledger.entry import Code, OffsetRange, parse_entry
from tidemill.storage.store import Store


class ListeningStore(Store):
    """Remembers what was read."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.reads: list[str] = []

    def read(self, path: str) -> bytes | None:
        self.reads.append(path.removeprefix(self.root))
        return super().read(path)


@pytest.fixture
def run(tmp_path: Path) -> RunContext:
    pipeline = declared(tmp_path)
    code = Code(tidemill="test", digest="", spec="")
    store = ListeningStore(pipeline.layout.root)
    topics = {"source": TopicFacts({}, {}, {"orders": "id-1"})}
    return RunContext(pipeline, "stream", "run-1", store, Drain(), code, "g0001", topics=topics)


def test_a_batch_reads_from_the_end_of_the_one_before_to_its_own(run: RunContext) -> None:
    write_checkpoint(Path(run.checkpoint), planned=[0, 1], committed=[0])
    assert run.entry(1).sources == {
        "source": OffsetRange(
            start={"orders": {"0": 10}}, end={"orders": {"0": 20}}, topic_ids={"orders": "id-1"}
        )
    }


def test_a_join_of_the_source_with_itself_is_told_side_by_side(run: RunContext) -> None:
    write_planned(Path(run.checkpoint), 4, {"orders": {"0": 10}}, {"orders": {"0": 12}})
    write_planned(Path(run.checkpoint), 5, {"orders": {"0": 20}}, {"orders": {"0": 22}})
    entry = run.entry(5)
    told = {name: (read.start, read.end) for name, read in entry.sources.items()}
    assert told == {
        "source": ({"orders": {"0": 10}}, {"orders": {"0": 20}}),
        "source.1": ({"orders": {"0": 12}}, {"orders": {"0": 22}}),
    }
    assert parse_entry(entry.to_text()) == entry


def test_what_the_broker_said_of_a_stream_called_source_is_told_of_no_other(run: RunContext) -> None:
    planned = write_planned(Path(run.checkpoint), 0)
    head = planned.read_text().replace("v1", "v2", 1)
    planned.write_text(f'{head}\nsource:{{"orders":{{"0":9}}}}\nlanding:{{"logOffset":0}}')
    told = run.entry(0).sources
    assert (told["source"].topic_ids, told["landing"].topic_ids) == ({"orders": "id-1"}, None)


def test_each_file_of_the_checkpoint_is_read_once_for_a_batch(run: RunContext) -> None:
    write_checkpoint(Path(run.checkpoint), planned=[0, 1], committed=[0])
    run.entry(1)
    assert isinstance(run.store, ListeningStore)
    read = [path.rpartition("/g0001/")[2] for path in run.store.reads if "/g0001/" in path]
    assert sorted(read) == ["metadata", "offsets/0", "offsets/1"]
