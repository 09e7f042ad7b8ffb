"""Delta's commits by Spark's writer: two JVMs that race for a commit file never both win it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.support.jvm_programs import java_program, outcome
from tests.support.stores import AZURITE, StorePlace
from tidemill.storage.access import access_to
from tidemill.storage.store import Store

COMMITS = 300

# Milliseconds from one race to the next: longer than a commit takes, so that both begin together each time.
APART = {"local": 12, "azurite": 40, "s3": 30}

OURS = "io.tidemill.delta.ExclusiveLogStore"
# On Azure Delta's own store is used: it renames, and Azure lets one rename win.
DELTAS_ON_AZURE = "io.delta.storage.AzureLogStore"


def begin(place: StorePlace, name: str) -> subprocess.Popen[str]:
    log = place.root if "://" in place.root else Path(place.root).as_uri()
    store = DELTAS_ON_AZURE if place.kind == AZURITE else OURS
    arguments = (store, f"{log}/_delta_log", name, str(COMMITS), str(APART[place.kind]))
    program = java_program("CommitRace", *arguments)
    settings = access_to(place.root).hadoop
    tell(program, *(f"{key}={value}" for key, value in settings.items()), "ready when you are")
    return program


def tell(program: subprocess.Popen[str], *lines: str) -> None:
    assert program.stdin is not None
    program.stdin.writelines(f"{line}\n" for line in lines)
    program.stdin.flush()


def race(place: StorePlace) -> dict[str, list[int]]:
    """Let two JVMs try the same commits at the same time, and return the commits that each one won."""
    writers = {name: begin(place, name) for name in ("one", "other")}
    for writer in writers.values():
        assert writer.stdout is not None
        if (line := writer.stdout.readline()) != "ready\n":
            raise AssertionError(line + outcome(writer))
    start = str(int(time.time() * 1000) + 100)
    for writer in writers.values():
        tell(writer, start)
    return {name: [int(line) for line in outcome(writer).split()] for name, writer in writers.items()}


def test_two_racing_drivers_never_both_win_a_commit(store_place: StorePlace, placed_store: Store) -> None:
    won = race(store_place)
    assert sorted(won["one"] + won["other"]) == list(range(COMMITS))
    # If one process is always first, there was no race.
    assert all(won.values())
    log = f"{placed_store.root}/_delta_log"
    for name, commits in won.items():
        assert {placed_store.read(f"{log}/{commit:020}.json") for commit in commits} == {f"{name}\n".encode()}
    assert len(placed_store.list_names(log)) == len(placed_store.list_files(log)) == COMMITS
