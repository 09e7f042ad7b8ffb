"""The data files that commits of a table have touched, as its log names them. Format: the Delta protocol."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tidemill.ledger.read import open_table, unreadable_log
from tidemill.storage.store import Store

# Commits read at the same time, which hides the waits of an object store.
_READ_AT_ONCE = 8


@dataclass(frozen=True)
class ChangedFiles:
    """How many data files a commit has changed, without those that it only moved (OPTIMIZE).

    Args:
        added: New ones.
        removed: Those that are gone.
    """

    added: int
    removed: int


def changed_files(path: str, versions: Iterable[int]) -> list[ChangedFiles]:
    """What each of these commits has changed, in the same order.

    Args:
        path: The table.
        versions: Of the commits.

    Raises:
        DataError: TIDE-LEDG-001, if the log does not have one of them any more.
    """
    store = Store(path)

    def changed(version: int) -> ChangedFiles:
        content = _content(store, path, version)
        return ChangedFiles(*(len(list(changed_paths(content, kind))) for kind in ("add", "remove")))

    with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
        return list(threads.map(changed, versions))


def files_touched(
    path: str, versions: Iterable[int], kinds: Collection[str] = ("add", "remove")
) -> frozenset[str]:
    """Files that these commits have added or removed.

    Args:
        path: The table.
        versions: Of the commits.
        kinds: Which of both.

    Raises:
        DataError: TIDE-LEDG-001, if the log does not have one of them any more.
    """
    store, files = Store(path), set()
    for version in versions:
        for line in _content(store, path, version).splitlines():
            action = json.loads(line)
            files |= {action[kind]["path"] for kind in kinds if kind in action}
    return frozenset(files)


def changed_paths(content: bytes, kind: str) -> Iterator[str]:
    """Files of one kind of action in a commit, without those that it only moved (OPTIMIZE).

    Args:
        content: The commit, as its log has it.
        kind: `add`, `remove`, or `cdc` for what it keeps of its changes.

    Returns:
        Relative and percent-encoded, as the log writes them.
    """
    for line in content.splitlines():
        action: dict[str, Any] | None = json.loads(line).get(kind)
        if action is not None and (kind == "cdc" or action.get("dataChange", True)):
            yield str(action["path"])


def _content(store: Store, path: str, version: int) -> bytes:
    content = store.read(f"{path}/_delta_log/{version:020}.json")
    if content is None:
        raise unreadable_log(path, f"version {version} is gone from its log")
    return content


def files_of(path: str, version: int) -> frozenset[str]:
    """All files of a version; none if there is no table."""
    table = open_table(path)
    if table is None:
        return frozenset()
    table.load_as_version(version)
    return frozenset(map(str, table.get_add_actions().column("path").to_pylist()))
