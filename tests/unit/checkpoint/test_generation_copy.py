"""The copy of a checkpoint after a batch holds what belongs to it, and nothing that came later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkpoints import write_checkpoint, write_planned
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.source_logs import read_file_log
from tidemill.checkpoint.verbs.generation_copy import copy_checkpoint
from tidemill.storage.store import Store

UNIQUE = "a064fce4-fb34-4d35-9fef-07341a6eeff2"


class Copying:
    """A checkpoint of six batches below a storage root, and its copies."""

    def __init__(self, root: Path) -> None:
        self.store = Store(str(root))
        self.folder = root / "state/orders/g0001"
        write_checkpoint(self.folder, planned=range(6), committed=range(5))

    def put(self, *names: str, content: bytes = b"x") -> None:
        for name in names:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)

    def after(self, batch_id: int) -> dict[str, bytes]:
        """Return files of a copy, by path below it."""
        target = f"{self.store.root}/state/orders/g0002"
        reader = CheckpointReader(self.store, str(self.folder))
        copy_checkpoint(reader, batch_id, (target, "new"))
        found = {f.path.removeprefix(f"{target}/"): f.path for f in self.store.list_files(target)}
        return {name: self.store.read(path) or b"" for name, path in found.items()}


@pytest.fixture
def copying(tmp_path: Path) -> Copying:
    return Copying(tmp_path)


def test_batches_up_to_the_named_one_are_copied_under_a_new_query_id(copying: Copying) -> None:
    copy = copying.after(3)
    assert sorted(copy) == [
        *(f"commits/{n}" for n in range(4)),
        "metadata",
        *(f"offsets/{n}" for n in range(4)),
        "sources/0/0",
    ]
    assert json.loads(copy["metadata"]) == {"id": "new"}
    assert copy["sources/0/0"] == (copying.folder / "sources/0/0").read_bytes()


def test_the_state_that_the_next_batch_loads_is_the_newest_copied(copying: Copying) -> None:
    kept = [
        "state/0/_metadata/metadata",
        "state/0/0/_metadata/schema",
        f"state/0/0/4_{UNIQUE}.changelog",
        f"state/0/0/4_{UNIQUE}.changelog.crc",
        f"state/0/0/3_{UNIQUE}.zip",
        "state/0/0/SSTs/000008-a9172edb.sst",
        f"state/0/1/left-keyToNumValues/4_{UNIQUE}.changelog",
        "state/1/0/4.delta",
        "state/1/_metadata/v2/3",
    ]
    left_out = [
        f"state/0/0/5_{UNIQUE}.changelog",
        f"state/0/0/5_{UNIQUE}.changelog.crc",
        f"state/0/1/left-keyToNumValues/5_{UNIQUE}.zip",
        "state/1/0/10.snapshot",
        "state/1/_metadata/v2/4",
    ]
    copying.put(*kept, *left_out)
    assert sorted(name for name in copying.after(3) if name.startswith("state/")) == sorted(kept)


def test_hidden_and_foreign_files_are_left_out(copying: Copying) -> None:
    copying.put(
        "offsets/.3.crc", "commits/.2.abc.tmp", "state/0/0/.4.delta.crc", ".metadata.crc", "notes.txt"
    )
    copying.put("offsets/copy of 3", "sources/0/.0.crc")
    assert {name.rpartition("/")[2] for name in copying.after(3)} == {"0", "1", "2", "3", "metadata"}


def test_a_batch_that_is_not_there_cannot_be_copied(copying: Copying) -> None:
    with pytest.raises(LookupError):
        copying.after(6)


def entry(number: int) -> dict[str, Any]:
    return {"path": f"file:///landing/{number}.json", "timestamp": 1_795_209_111_731, "batchId": number}


def write_file_log(copying: Copying, newest: int, compacted: list[int], kept_from: int = 0) -> None:
    """Write the log of a files source without the entries before the first retained one."""
    for number in range(kept_from, newest + 1):
        held = range(number + 1) if number in compacted else [number]
        lines = ["v1", *(json.dumps(entry(n), separators=(",", ":")) for n in held)]
        name = f"{number}.compact" if number in compacted else str(number)
        copying.put(f"sources/0/{name}", content="\n".join(lines).encode())


@pytest.mark.parametrize(
    ("newest", "compacted", "kept_from", "last"),
    [
        (5, [], 0, 3),
        (12, [9], 0, 12),
        (12, [9], 0, 9),
        (12, [9], 0, 8),
        (25, [9, 19], 0, 15),
        # Spark has cleaned away what is older than the newest compact entry.
        (25, [19], 19, 22),
        (25, [19], 19, 15),
        (25, [19], 19, 4),
        # The distance between compact entries was 20 for a while.
        (45, [39], 39, 27),
    ],
)
def test_a_files_source_has_read_the_files_of_the_copied_batches_only(
    copying: Copying, newest: int, compacted: list[int], kept_from: int, last: int
) -> None:
    (copying.folder / "sources/0/0").unlink()
    write_file_log(copying, newest, compacted, kept_from)
    write_planned(copying.folder, 3, {"logOffset": last})
    copy = copying.after(3)
    target = f"{copying.store.root}/state/orders/g0002"
    log = read_file_log(copying.store, target, copying.store.list_files(target))
    assert [read.path for read in log] == [entry(n)["path"] for n in range(last + 1)]
    assert spark_expects(last) == {name for name in copy if name.startswith("sources/")}


def spark_expects(last: int) -> set[str]:
    """Return the files that Spark reads: the newest compact entry (every tenth) and the single ones after."""
    compact = max((n for n in range(last + 1) if (n + 1) % 10 == 0), default=-1)
    singles = {f"sources/0/{n}" for n in range(compact + 1, last + 1)}
    return singles | ({f"sources/0/{compact}.compact"} if compact >= 0 else set())


def test_a_log_with_a_gap_is_not_copied(copying: Copying) -> None:
    (copying.folder / "sources/0/0").unlink()
    write_file_log(copying, 5, [])
    (copying.folder / "sources/0/2").unlink()
    write_planned(copying.folder, 3, {"logOffset": 3})
    with pytest.raises(LookupError, match="sources/0/2"):
        copying.after(3)


def test_a_source_that_is_read_twice_has_one_log(copying: Copying) -> None:
    (copying.folder / "sources/0/0").unlink()
    write_file_log(copying, 5, [])
    write_planned(copying.folder, 3, {"logOffset": 3}, {"logOffset": 3})
    assert sorted(name for name in copying.after(3) if name.startswith("sources/")) == [
        f"sources/0/{number}" for number in range(4)
    ]


def test_of_several_streams_each_must_have_its_log(copying: Copying) -> None:
    """Spark would read all files of the other one again."""
    copying.put("sources/north/0", content=b"v1\n" + json.dumps(entry(0)).encode())
    planned = write_planned(copying.folder, 3)
    head = planned.read_text().replace("v1", "v2", 1)
    planned.write_text(f'{head}\nnorth:{{"logOffset":0}}\nsouth:{{"logOffset":0}}')
    with pytest.raises(LookupError, match="sources/south"):
        copying.after(3)


def test_a_files_source_without_its_log_is_not_copied(copying: Copying) -> None:
    (copying.folder / "sources/0/0").unlink()
    write_planned(copying.folder, 3, {"logOffset": 3})
    with pytest.raises(LookupError, match="sources/0"):
        copying.after(3)
