"""Operations on a Kubernetes API server that the runtime uses, in one namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tidemill.errors import UnavailableError

Document = dict[str, Any]

# Field manager of all changes made here.
FIELD_MANAGER = "tidemill"

# Maximum tries of an action after conflicts. Controllers write a status now and then; several conflicts in a
# row mean that another client undoes the changes.
TRIES = 5


@dataclass(frozen=True)
class Kind:
    """A kind of object, by the two parts of its address."""

    group: str
    plural: str


CONFIG_MAPS = Kind("/api/v1", "configmaps")
EVENTS = Kind("/api/v1", "events")
PODS = Kind("/api/v1", "pods")
SERVICES = Kind("/api/v1", "services")
STATEFUL_SETS = Kind("/apis/apps/v1", "statefulsets")
JOBS = Kind("/apis/batch/v1", "jobs")
DISRUPTION_BUDGETS = Kind("/apis/policy/v1", "poddisruptionbudgets")


class ConflictError(UnavailableError):
    """Another client created or changed the object: read it again and decide again."""


class KubernetesApi(Protocol):
    """The namespace's objects as plain documents.

    Every method raises UnavailableError (TIDE-K8S-001, -002) if the API server does not answer or denies
    access, and SpecError (TIDE-K8S-004) if it rejects a document.
    """

    def namespace(self) -> Document:
        """Return the namespace itself."""

    def get(self, kind: Kind, name: str) -> Document | None:
        """Return one object; None if it does not exist."""

    def list(
        self, kind: Kind, labels: Mapping[str, str], fields: Mapping[str, str] | None = None
    ) -> list[Document]:
        """Return the objects that have all these labels and fields."""

    def create(self, kind: Kind, document: Document) -> Document:
        """Create an object; ConflictError if the name exists."""

    def check(self, kind: Kind, document: Document) -> None:
        """Check by a dry run that an object could be created. ConflictError as in `create`."""

    def replace(self, kind: Kind, document: Document) -> Document:
        """Replace an object; ConflictError if its `resourceVersion` is no longer the document's."""

    def apply(self, kind: Kind, document: Document) -> Document:
        """Create an object or update it to the document (server-side apply, by force)."""

    def patch(self, kind: Kind, name: str, changes: Document) -> Document | None:
        """Merge changes into an object; None if it does not exist. ConflictError as in `replace`."""

    def delete(self, kind: Kind, name: str, options: Document) -> bool:
        """Delete an object; False if it does not exist. ConflictError if a precondition does not hold."""

    def log(
        self, pod: str, container: str, lines: int, *, previous: bool = False, since: datetime | None = None
    ) -> str:
        """Return the newest lines of a container, each after its timestamp; empty if there are none.

        Includes all lines of the second that contains `since`, because the kubelet compares whole seconds.
        """


def insist(action: Callable[[], bool]) -> bool:
    """Run an action that reads and then writes, again after a conflict; return its result.

    Raises:
        ConflictError: TIDE-K8S-003, if every try has a conflict.
    """
    for _ in range(TRIES - 1):
        try:
            return action()
        except ConflictError:
            continue
    return action()
