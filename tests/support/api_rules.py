"""An API server's rules about versions, preconditions and merges, for the one in memory."""

from __future__ import annotations

from typing import Any

from tidemill.control.kubernetes.api import ConflictError, Document, Kind


def conflict(verb: str, kind: Kind) -> ConflictError:
    return ConflictError(
        "TIDE-K8S-003", "Somebody else was first.", facts={"verb": verb, "kind": kind.plural}
    )


def check_version(old: Document, new: Document, verb: str, kind: Kind) -> None:
    version = new.get("metadata", {}).get("resourceVersion")
    if version not in (None, old["metadata"]["resourceVersion"]):
        raise conflict(verb, kind)


def check_preconditions(old: Document, options: Document, kind: Kind) -> None:
    """Raise if a deletion names another uid or version than the object has."""
    wanted = options.get("preconditions", {})
    if any(old["metadata"][key] != value for key, value in wanted.items()):
        raise conflict("delete", kind)


def merged(old: Any, changes: Any) -> Any:
    """RFC 7386: maps are merged, null removes, everything else replaces."""
    if not isinstance(changes, dict):
        return changes
    base = old if isinstance(old, dict) else {}
    kept = {key: value for key, value in base.items() if key not in changes}
    return {**kept, **{k: merged(base.get(k), v) for k, v in changes.items() if v is not None}}


def field_at(document: Document, path: str) -> Any:
    found: Any = document
    for key in path.split("."):
        found = (found or {}).get(key)
    return found
