"""No missed refusal: each way in which a checkpoint is damaged, lost, mixed up or outgrown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.declared import declared
from tests.support.stored_stream import DECLARATION, FIRST, TABLE, StoredStream, store_stream
from tidemill.checkpoint.gate import check, examine, gather_facts
from tidemill.checkpoint.gate.checksum import checksum_of
from tidemill.errors import GateRefusedError
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

LAST = FIRST + 5
# Refusals that no operation repairs: a foreign file is moved away by hand, a sink declared elsewhere.
NO_VERB = ("TIDE-CKPT-014", "TIDE-CKPT-028")


def refused(stored: StoredStream, pipeline: Pipeline | None = None) -> str | None:
    """Return the id of the refusal; None if the pipeline may start."""
    facts = gather_facts(Store(stored.pipeline.layout.root), pipeline or stored.pipeline, "g0001")
    first = next((finding for finding in examine(facts) if finding.severity == "error"), None)
    if first is None:
        check(facts)
        return None
    with pytest.raises(GateRefusedError) as error:
        check(facts)
    assert (error.value.error_id, error.value.runbook) == (first.finding_id, first.runbook)
    assert (error.value.facts["pipeline"], error.value.facts["generation"]) == ("orders", "g0001")
    assert "tidemill checkpoint" in error.value.fix or error.value.error_id in NO_VERB
    return error.value.error_id


@pytest.fixture
def stored(tmp_path: Path) -> StoredStream:
    return store_stream(tmp_path, batches=LAST - FIRST + 1, partitions=2)


def test_the_checkpoint_is_healthy_before_anything_is_done_to_it(stored: StoredStream) -> None:
    facts = gather_facts(Store(stored.pipeline.layout.root), stored.pipeline, "g0001")
    assert examine(facts) == []
    assert (facts.planned, facts.committed, facts.state.operators) == (LAST, LAST, (0, 1))
    assert facts.tables[TABLE].last_batch == LAST


def cut(name: str) -> Callable[[StoredStream], None]:
    def act(stored: StoredStream) -> None:
        path = stored.checkpoint / name
        path.write_bytes(path.read_bytes()[:-7])

    return act


def empty(name: str) -> Callable[[StoredStream], None]:
    return lambda stored: stored.write(name, b"")


def gone(*names: str) -> Callable[[StoredStream], None]:
    return lambda stored: stored.remove(*names)


def lost(folder: str) -> Callable[[StoredStream], None]:
    return lambda stored: shutil.rmtree(stored.checkpoint / folder)


def content(name: str, text: bytes) -> Callable[[StoredStream], None]:
    return lambda stored: stored.write(name, text)


def copied(source: str, name: str) -> Callable[[StoredStream], None]:
    return lambda stored: stored.write(name, (stored.checkpoint / source).read_bytes())


def state(act: Callable[[Path], object]) -> Callable[[StoredStream], None]:
    return lambda stored: act(stored.newest_state()) and None


def data_file(stored: StoredStream) -> None:
    next(stored.checkpoint.glob("state/0/0/SSTs/*.sst")).unlink()


def without_last_batches(stored: StoredStream) -> None:
    """Checkpoint cut to batch 1003 by hand, state left behind."""
    for batch_id in (1004, 1005):
        stored.remove(f"offsets/{batch_id}", f"commits/{batch_id}")


def taken_back_by_hand(stored: StoredStream) -> None:
    """Do the same and restore the table to the same batch, so that everything seems to agree."""
    without_last_batches(stored)
    stored.write_table(restored_to=1003 - FIRST + 1)


def without_state_of_its_own(stored: StoredStream) -> None:
    """Roll back checkpoint and table together, so that only the leftover state shows the damage."""
    without_last_batches(stored)
    stored.write_table(last=1003)


def twin_left(stored: StoredStream) -> None:
    for name in (f"offsets/{LAST}", f"commits/{LAST}"):
        (stored.checkpoint / name).unlink()


def wrong_twin(stored: StoredStream) -> None:
    (stored.checkpoint / f"offsets/.{LAST}.crc").write_bytes(checksum_of(b"something else"))


def overwritten(stored: StoredStream) -> None:
    """Rewrite the plan of a written batch with other bounds, as a fenced-off driver would."""
    path = stored.checkpoint / f"offsets/{LAST}"
    *head, last = path.read_text().split("\n")
    ends = json.loads(last)
    ends["orders"]["3"] += 1
    stored.write(f"offsets/{LAST}", "\n".join([*head, json.dumps(ends)]).encode())


def commit_lost(stored: StoredStream) -> None:
    (Path(stored.pipeline.layout.table(TABLE)) / "_delta_log" / f"{2:020}.json").unlink()


@pytest.mark.parametrize(
    ("damage", "error_id"),
    [
        # Row 12: torn, empty, missing files.
        pytest.param(cut(f"offsets/{LAST}"), "TIDE-CKPT-007", id="offsets/N torn"),
        pytest.param(cut(f"offsets/{LAST - 1}"), "TIDE-CKPT-007", id="offsets/N-1 torn"),
        pytest.param(cut(f"commits/{LAST}"), "TIDE-CKPT-007", id="commits/N torn"),
        pytest.param(cut("metadata"), "TIDE-CKPT-007", id="metadata torn"),
        pytest.param(empty(f"offsets/{LAST}"), "TIDE-CKPT-007", id="offsets/N empty"),
        pytest.param(empty(f"offsets/{LAST - 1}"), "TIDE-CKPT-007", id="offsets/N-1 empty"),
        pytest.param(empty(f"commits/{LAST}"), "TIDE-CKPT-007", id="commits/N empty"),
        pytest.param(empty("metadata"), "TIDE-CKPT-007", id="metadata empty"),
        pytest.param(gone(f"offsets/{LAST}"), "TIDE-CKPT-012", id="offsets/N missing"),
        pytest.param(gone(f"offsets/{LAST - 1}"), "TIDE-CKPT-011", id="offsets/N-1 missing"),
        pytest.param(
            gone(f"commits/{LAST}", f"commits/{LAST - 1}"), "TIDE-CKPT-011", id="commits/N and N-1 missing"
        ),
        pytest.param(gone(f"offsets/{LAST}", f"commits/{LAST}"), "TIDE-CKPT-004", id="whole batch missing"),
        pytest.param(lost("offsets"), "TIDE-CKPT-012", id="offsets lost"),
        pytest.param(lost("commits"), "TIDE-CKPT-011", id="commits lost"),
        pytest.param(lost("sources"), "TIDE-CKPT-015", id="sources lost"),
        pytest.param(lost("."), "TIDE-CKPT-004", id="all lost"),
        pytest.param(gone("metadata"), "TIDE-CKPT-010", id="metadata missing"),
        pytest.param(
            content(f"offsets/{LAST}", b"v9\n{}\n{}"), "TIDE-CKPT-007", id="unknown offsets version"
        ),
        pytest.param(content(f"commits/{LAST}", b"v9\n{}"), "TIDE-CKPT-007", id="unknown commits version"),
        pytest.param(copied(f"offsets/{LAST}", "offsets/99999"), "TIDE-CKPT-011", id="stray number, a copy"),
        pytest.param(content("offsets/99999", b"notes"), "TIDE-CKPT-007", id="stray number, something else"),
        pytest.param(
            copied(f"commits/{LAST}", "commits/99999"), "TIDE-CKPT-012", id="stray number in commits"
        ),
        pytest.param(copied(f"offsets/{LAST}", "offsets/007"), "TIDE-CKPT-014", id="a name like a number"),
        pytest.param(copied(f"offsets/{LAST}", "offsets/+5"), "TIDE-CKPT-014", id="a signed number"),
        pytest.param(twin_left, "TIDE-CKPT-013", id="twin without its file"),
        pytest.param(wrong_twin, "TIDE-CKPT-007", id="twin of another content"),
        # Row 13: state.
        pytest.param(state(Path.unlink), "TIDE-CKPT-016", id="changelog lost"),
        pytest.param(state(lambda path: path.write_bytes(b"")), "TIDE-CKPT-016", id="changelog empty"),
        pytest.param(state(lambda path: path.write_bytes(b"half")), "TIDE-CKPT-016", id="changelog cut"),
        pytest.param(state(lambda path: shutil.rmtree(path.parent)), "TIDE-CKPT-016", id="partition lost"),
        pytest.param(lost("state/1"), "TIDE-CKPT-016", id="operator lost"),
        pytest.param(lost("state"), "TIDE-CKPT-016", id="state lost"),
        pytest.param(data_file, "TIDE-CKPT-016", id="data file of a snapshot lost"),
        # Row 14: taken back by hand.
        pytest.param(taken_back_by_hand, "TIDE-CKPT-018", id="skip trap"),
        pytest.param(without_last_batches, "TIDE-CKPT-004", id="older checkpoint under a newer table"),
        pytest.param(without_state_of_its_own, "TIDE-CKPT-002", id="newer state left behind"),
        pytest.param(lambda s: s.write_table(last=LAST - 1), "TIDE-CKPT-005", id="older table"),
        pytest.param(
            lambda s: s.write_table(query_id="another"), "TIDE-CKPT-001", id="another query's table"
        ),
        pytest.param(commit_lost, "TIDE-CKPT-091", id="commit of the table lost"),
        # Row 24: two drivers.
        pytest.param(overwritten, "TIDE-CKPT-017", id="offsets/N overwritten"),
    ],
)
def test_damage_is_refused(
    stored: StoredStream, damage: Callable[[StoredStream], None], error_id: str
) -> None:
    damage(stored)
    assert refused(stored) == error_id


@pytest.mark.parametrize(
    ("change", "error_id"),
    [
        ({"run": {"shuffle_partitions": 4}}, "TIDE-CKPT-026"),
        ({"event_time": {"column": "seen_at", "watermark": "10 minutes"}}, "TIDE-CKPT-027"),
        ({"sinks": [{"delta": {"table": TABLE, "mode": "merge", "key": ["id"]}}]}, "TIDE-CKPT-027"),
        ({"event_time": {"column": "at", "watermark": "1 hour"}}, "TIDE-CKPT-093"),
        ({"source": {"kafka": {"topic": "payments"}}}, "TIDE-CKPT-003"),
        ({"source": {"files": {"path": "in", "format": "text"}}}, "TIDE-CKPT-025"),
        ({"source": {"rate": {}}}, "TIDE-CKPT-025"),
        ({"sinks": [{"delta": {"table": t}} for t in (TABLE, "silver/orders")]}, "TIDE-CKPT-028"),
    ],
)
def test_a_change_that_the_checkpoint_does_not_survive_is_refused(
    stored: StoredStream, change: dict[str, Any], error_id: str
) -> None:
    """Row 22: before the old version stops; the changed file is all that the gate needs."""
    assert refused(stored, declared(stored.folder, **{**DECLARATION, **change})) == error_id


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"kafka": {"topics": ["orders", "payments"]}}},
        {"source": {"kafka": {"pattern": "ord.*"}}},
        {"run": {"shuffle_partitions": 10, "trigger": "1 minute"}},
    ],
)
def test_a_change_that_the_checkpoint_survives_is_no_reason(
    stored: StoredStream, change: dict[str, Any]
) -> None:
    assert refused(stored, declared(stored.folder, **{**DECLARATION, **change})) is None


@pytest.mark.parametrize("with_twin", [True, False])
@pytest.mark.parametrize("name", [f"offsets/{LAST}", f"commits/{LAST}", "metadata"])
def test_a_file_that_was_cut_is_refused_wherever_it_was_cut(
    stored: StoredStream, name: str, with_twin: bool
) -> None:
    path = stored.checkpoint / name
    whole = path.read_bytes()
    # Every byte of the last line's end and of the head; a whole file takes some 30 ms to look at.
    for length in {0, 1, 2, 3, 4, len(whole) // 2, len(whole) - 2, len(whole) - 1}:
        path.write_bytes(whole[:length])
        if not with_twin:
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        assert refused(stored) == "TIDE-CKPT-007", f"{length} of {len(whole)} bytes"


def harmless_purge(stored: StoredStream) -> None:
    """Killed between two files of a purge."""
    stored.remove(f"offsets/{FIRST}", f"offsets/{FIRST + 2}", f"commits/{FIRST + 1}")


def killed_before_commit(stored: StoredStream) -> None:
    stored.remove(f"commits/{LAST}")


def temporary_files(stored: StoredStream) -> None:
    (stored.checkpoint / f"offsets/.{LAST + 1}.9c0d.tmp").write_bytes(b"v1")
    (stored.checkpoint / f"offsets/..{LAST + 1}.9c0d.tmp.crc").write_bytes(b"crc")


def no_twins(stored: StoredStream) -> None:
    """Remove the checksum twins, as on an object store or after a kill between a file and its twin."""
    for twin in stored.checkpoint.rglob(".*.crc"):
        twin.unlink()


def numeric_folder(stored: StoredStream) -> None:
    (stored.checkpoint / "offsets/77777").mkdir()
    (stored.checkpoint / "offsets/77777/notes.txt").write_text("Spark ignores folders.")


@pytest.mark.parametrize(
    "harmless", [harmless_purge, killed_before_commit, temporary_files, no_twins, numeric_folder]
)
def test_what_a_crash_or_a_passer_by_leaves_is_no_reason(
    stored: StoredStream, harmless: Callable[[StoredStream], None]
) -> None:
    harmless(stored)
    assert refused(stored) is None
