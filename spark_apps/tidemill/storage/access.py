"""Which access belongs to which storage root, in this process.

Whoever opens an environment says so once (`open_storage`); from then on a path below its root is enough to
reach it. So credentials are no argument of everything that takes a path, and a secret is read when a path is
first used, not when conf is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tidemill.spec.project import Environment
from tidemill.spec.secret_value import read_secret
from tidemill.storage.object_stores import NO_ACCESS, Access, read_access

_known: dict[str, Callable[[], Access]] = {}


def open_storage(environment: Environment) -> None:
    """Make the environment's storage root reachable from this process. Reads no secret yet."""
    storage = environment.spec.storage
    if storage is None:
        return
    root = environment.layout.root

    @cache
    def access() -> Access:
        return read_access(root, storage, lambda name: read_secret(environment, name))

    _known[root] = access


def access_to(path: str) -> Access:
    """The access that a path needs: that of the longest root above it.

    Raises:
        SpecError: TIDE-SPEC-030, if a secret has no value here; 033, if a workload identity is none here.
    """
    roots = [root for root in _known if path == root or path.startswith(root + "/")]
    return _known[max(roots, key=len)]() if roots else NO_ACCESS
