"""The data files that commits of a table have touched, as its log names them. Format: the Delta protocol."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from tidemill.ledger.read import open_table, unreadable_log
from tidemill.storage.store import Store


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
        content = store.read(f"{path}/_delta_log/{version:020}.json")
        if content is None:
            raise unreadable_log(path, f"version {version} is gone from its log")
        for line in content.splitlines():
            action = json.loads(line)
            files |= {action[kind]["path"] for kind in kinds if kind in action}
    return frozenset(files)


def files_of(path: str, version: int) -> frozenset[str]:
    """All files of a version; none if there is no table."""
    table = open_table(path)
    if table is None:
        return frozenset()
    table.load_as_version(version)
    return frozenset(map(str, table.get_add_actions().column("path").to_pylist()))
