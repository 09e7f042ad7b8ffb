"""The data files that a table's commits have changed, from its log. Format: the Delta protocol."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tidemill.ledger.read import open_table, unreadable_log
from tidemill.storage.store import Store

# Commits read concurrently, to hide an object store's latency.
_READ_AT_ONCE = 8


@dataclass(frozen=True)
class ChangedFiles:
    """Numbers of data files that a commit has changed, without those that it only moved (OPTIMIZE).

    Args:
        added: Number of new files.
        removed: Number of removed files.
    """

    added: int
    removed: int


def changed_files(path: str, versions: Iterable[int]) -> list[ChangedFiles]:
    """Return the numbers of changed files of these commits, in the same order.

    Args:
        path: The table.
        versions: Versions of the commits.

    Raises:
        DataError: TIDE-LEDG-001, if one of them is no longer in the log.
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
    """Return the files that these commits have added or removed.

    Args:
        path: The table.
        versions: Versions of the commits.
        kinds: Kinds of action to include.

    Raises:
        DataError: TIDE-LEDG-001, if one of them is no longer in the log.
    """
    store, files = Store(path), set()
    for version in versions:
        for line in _content(store, path, version).splitlines():
            action = json.loads(line)
            files |= {action[kind]["path"] for kind in kinds if kind in action}
    return frozenset(files)


def changed_paths(content: bytes, kind: str) -> Iterator[str]:
    """Yield the files of one kind of action in a commit, without files that it only moved (OPTIMIZE).

    Args:
        content: Content of the commit file.
        kind: `add`, `remove`, or `cdc` for change data files.

    Returns:
        Relative and percent-encoded paths, as the log writes them.
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
    """Return all files of a version; empty if the table does not exist."""
    table = open_table(path)
    if table is None:
        return frozenset()
    table.load_as_version(version)
    return frozenset(map(str, table.get_add_actions().column("path").to_pylist()))
