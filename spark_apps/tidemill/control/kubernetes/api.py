"""What the runtime asks of a Kubernetes API server, in one namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tidemill.errors import UnavailableError

Document = dict[str, Any]

# Who is named as the manager of fields that are applied or changed here.
FIELD_MANAGER = "tidemill"

# Times that an action looks again after someone else's change came between. The controllers write a status
# now and then; several conflicts in a row mean that someone works against us.
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
    """Someone else created or changed the object meanwhile: look again, then decide anew."""


class KubernetesApi(Protocol):
    """The namespace's objects as plain documents.

    Every method raises UnavailableError (TIDE-K8S-001, -002) if the API server does not answer or does not
    allow it, and SpecError (TIDE-K8S-004) if it refuses a document.
    """

    def namespace(self) -> Document:
        """The namespace itself."""

    def get(self, kind: Kind, name: str) -> Document | None:
        """One object; None if there is none."""

    def list(
        self, kind: Kind, labels: Mapping[str, str], fields: Mapping[str, str] | None = None
    ) -> list[Document]:
        """Objects that carry all these labels and have these fields."""

    def create(self, kind: Kind, document: Document) -> Document:
        """Create an object; ConflictError if the name is taken."""

    def check(self, kind: Kind, document: Document) -> None:
        """See that an object could be created; creates nothing (a dry run). ConflictError as in `create`."""

    def replace(self, kind: Kind, document: Document) -> Document:
        """Replace an object; ConflictError if it is not at the document's `resourceVersion` any more."""

    def apply(self, kind: Kind, document: Document) -> Document:
        """Create an object, or make it as the document says (server-side apply, by force)."""

    def patch(self, kind: Kind, name: str, changes: Document) -> Document | None:
        """Merge changes into an object; None if there is none. ConflictError as in `replace`, by version."""

    def delete(self, kind: Kind, name: str, options: Document) -> bool:
        """Delete an object; False if there is none. ConflictError if a precondition does not hold."""

    def log(
        self, pod: str, container: str, lines: int, *, previous: bool = False, since: datetime | None = None
    ) -> str:
        """The newest lines that a container wrote, each behind its moment; empty if there are none to be had.

        Those of the second that `since` lies in are among them: the kubelet compares seconds.
        """


def insist(action: Callable[[], bool]) -> bool:
    """Carry out an action that looks and then changes, again if it was overtaken; returns what it returns.

    Raises:
        ConflictError: TIDE-K8S-003, if it is overtaken every time.
    """
    for _ in range(TRIES - 1):
        try:
            return action()
        except ConflictError:
            continue
    return action()
