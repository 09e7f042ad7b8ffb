"""The credentials for each storage root in this process.

The code that opens an environment registers its root once (`open_storage`). From then on, a path below the
root is enough to access it. So credentials need not be passed along with every path, and a secret is read
when a path is first used, not when conf is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tidemill.spec.project import Environment
from tidemill.spec.secret_value import read_secret
from tidemill.storage.object_stores import NO_ACCESS, Access, read_access

_known: dict[str, Callable[[], Access]] = {}


def open_storage(environment: Environment) -> None:
    """Register the environment's storage root in this process. Reads no secret yet."""
    storage = environment.spec.storage
    if storage is None:
        return
    root = environment.layout.root

    @cache
    def access() -> Access:
        return read_access(root, storage, lambda name: read_secret(environment, name))

    _known[root] = access


def access_to(path: str) -> Access:
    """Return the credentials for a path: those of the longest registered root above it.

    Raises:
        SpecError: TIDE-SPEC-030, if a secret has no value here; 033, if there is no workload identity here.
    """
    roots = [root for root in _known if path == root or path.startswith(root + "/")]
    return _known[max(roots, key=len)]() if roots else NO_ACCESS
