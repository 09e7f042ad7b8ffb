"""A Kubernetes API server in memory, with versions, conflicts and the controllers that drivers need.

Faithful where the runtime relies on it; `tests/support/api_contract.py` says where, and is run against this
one (unit) and against a real one (e2e). Controllers act only when a test says so, so that every moment
between two of their acts can be looked at.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.support.api_rules import check_preconditions, check_version, conflict, field_at, merged
from tidemill.control.kubernetes.api import EVENTS, JOBS, PODS, STATEFUL_SETS, Document, Kind
from tidemill.errors import UnavailableError

# Status condition of a Job that may not create pods.
SUSPENSION = {"type": "Suspended", "status": "True"}


# When every pod's log begins.
LOG_BEGINS = datetime(2026, 1, 1, tzinfo=UTC)

# Kind of the namespace itself.
NAMESPACE = Kind("/api/v1", "namespaces")


class StarterDiedError(BaseException):
    """The process that speaks to the API server ends here, without a chance to tidy up."""


@dataclass
class ApiServerInMemory:
    """One namespace.

    Args:
        before: Called before each request with its verb and kind; may raise.
        logs: Logs of the pods.
        clock: The time.
        uid: Uid of the namespace.
    """

    before: Callable[[str, Kind], None] = lambda _verb, _kind: None
    logs: dict[str, str] = field(default_factory=dict)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    uid: str = "uid-namespace"

    def __post_init__(self) -> None:
        self._objects: dict[tuple[Kind, str], Document] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    def namespace(self) -> Document:
        self.before("get", NAMESPACE)
        return {"metadata": {"name": "plant", "uid": self.uid}}

    def get(self, kind: Kind, name: str) -> Document | None:
        self.before("get", kind)
        with self._lock:
            return copy.deepcopy(self._objects.get((kind, name)))

    def list(
        self, kind: Kind, labels: Mapping[str, str], fields: Mapping[str, str] | None = None
    ) -> list[Document]:
        self.before("list", kind)
        with self._lock:
            found = [each for (its, _), each in self._objects.items() if its == kind]
            wanted = [
                each for each in found if labels.items() <= (each["metadata"].get("labels") or {}).items()
            ]
            fits = [each for each in wanted if all(field_at(each, k) == v for k, v in (fields or {}).items())]
            return copy.deepcopy(fits)

    def create(self, kind: Kind, document: Document) -> Document:
        self.before("create", kind)
        with self._lock:
            if (kind, document["metadata"]["name"]) in self._objects:
                raise conflict("create", kind)
            return self._store(kind, document, self._new_identity())

    def check(self, kind: Kind, document: Document) -> None:
        self.before("check", kind)
        if (kind, document["metadata"]["name"]) in self._objects:
            raise conflict("check", kind)

    def replace(self, kind: Kind, document: Document) -> Document:
        self.before("replace", kind)
        with self._lock:
            old = self._objects.get((kind, document["metadata"]["name"]))
            if old is None:
                raise conflict("replace", kind)
            check_version(old, document, "replace", kind)
            return self._store(kind, {**_status(old), **document}, _identity(old))

    def apply(self, kind: Kind, document: Document) -> Document:
        self.before("apply", kind)
        with self._lock:
            old = self._objects.get((kind, document["metadata"]["name"]))
            if old is None:
                return self._store(kind, document, self._new_identity())
            return self._store(kind, {**_status(old), **document}, _identity(old))

    def patch(self, kind: Kind, name: str, changes: Document) -> Document | None:
        self.before("patch", kind)
        with self._lock:
            old = self._objects.get((kind, name))
            if old is None:
                return None
            check_version(old, changes, "patch", kind)
            return self._store(kind, merged(old, changes), _identity(old))

    def delete(self, kind: Kind, name: str, options: Document) -> bool:
        """Delete an object at once, or mark a pod, which the kubelet deletes in its next turn."""
        self.before("delete", kind)
        with self._lock:
            old = self._objects.get((kind, name))
            if old is None:
                return False
            check_preconditions(old, options, kind)
            if kind == PODS:
                self._mark(name, options.get("gracePeriodSeconds"))
                return True
            if options.get("propagationPolicy") == "Orphan":
                for pod in self._pods_of(old):
                    orphan = {**pod["metadata"], "ownerReferences": []}
                    self._store(PODS, {**pod, "metadata": orphan}, _identity(pod))
            del self._objects[(kind, name)]
            return True

    def log(
        self, pod: str, container: str, lines: int, *, previous: bool = False, since: datetime | None = None
    ) -> str:
        """Return the log of a pod, with two lines per tenth of a second."""
        self.before("log", PODS)
        first_second = None if since is None else since.replace(microsecond=0)
        stamped = [
            (LOG_BEGINS + timedelta(milliseconds=100 * (number // 2)), line)
            for number, line in enumerate(self.logs.get(pod, "").splitlines())
        ]
        wanted = [each for each in stamped if first_second is None or each[0] >= first_second]
        # Nanoseconds, as the kubelet writes them.
        return "".join(f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z {line}\n" for moment, line in wanted[-lines:])

    # Methods for tests, controllers and kubelets, never for the runtime.

    def put(self, kind: Kind, document: Document) -> Document:
        """Put an object there as it is, for a test."""
        with self._lock:
            return self._store(kind, document, self._new_identity())

    def warn(self, name: str, reason: str, message: str) -> None:
        """Add an event of type Warning about an object."""
        at = f"2026-01-01T00:00:{next(self._numbers) % 60:02}Z"
        about = {"involvedObject": {"name": name}, "type": "Warning", "lastTimestamp": at}
        event = {"metadata": {"name": f"event-{next(self._numbers)}"}, "reason": reason, "message": message}
        self.put(EVENTS, {**event, **about})

    def controllers(self) -> None:
        """Let every controller take one turn: mark surplus pods, and create and run missing ones."""
        with self._lock:
            for document in [each for (kind, _), each in self._objects.items() if kind == STATEFUL_SETS]:
                self._keep_stateful_set(document)
            for document in [each for (kind, _), each in self._objects.items() if kind == JOBS]:
                self._keep_job(document)
            self._collect_garbage()

    def kubelet(self) -> None:
        """Marked pods have ended, and are gone."""
        with self._lock:
            for (kind, name), document in list(self._objects.items()):
                if kind == PODS and "deletionTimestamp" in document["metadata"]:
                    del self._objects[(kind, name)]

    def settle(self) -> None:
        """Let all components take turns until nothing changes."""
        for _ in range(3):
            self.controllers()
            self.kubelet()
        self.controllers()

    def change_pod(self, name: str, status: Document) -> None:
        """Set the status of a pod, as the kubelet does."""
        with self._lock:
            pod = self._objects[(PODS, name)]
            self._store(PODS, {**pod, "status": status}, _identity(pod))

    def finish_job(self, name: str, outcome: str = "Complete") -> None:
        """End a Job and its pod."""
        with self._lock:
            job = self._objects[(JOBS, name)]
            done = {"conditions": [{"type": outcome, "status": "True"}]}
            self._store(JOBS, {**job, "status": done}, _identity(job))
            for pod in self._pods_of(job):
                phase = "Succeeded" if outcome == "Complete" else "Failed"
                self.change_pod(pod["metadata"]["name"], {"phase": phase})

    @property
    def running_pods(self) -> list[str]:
        """Return the names of the existing pods, including pods that are marked for deletion."""
        with self._lock:
            return sorted(name for kind, name in self._objects if kind == PODS)

    def _keep_stateful_set(self, document: Document) -> None:
        wanted = f"{document['metadata']['name']}-0"
        pods = {pod["metadata"]["name"]: pod for pod in self._pods_of(document)}
        template = document["spec"]["template"]
        for name, pod in pods.items():
            is_old = pod["metadata"]["annotations"] != template["metadata"]["annotations"]
            if document["spec"].get("replicas", 1) == 0 or is_old:
                self._mark(name)
        if document["spec"].get("replicas", 1) and (PODS, wanted) not in self._objects:
            self._make_pod(wanted, document, {})

    def _keep_job(self, document: Document) -> None:
        """Keep one pod and never a second one; none while the Job is suspended, which the status shows."""
        name, pods, status = document["metadata"]["name"], self._pods_of(document), document.get("status", {})
        suspended = document["spec"].get("suspend", False)
        if status.get("conditions", [SUSPENSION]) != [SUSPENSION]:
            return
        if suspended:
            for pod in pods:
                self._mark(pod["metadata"]["name"])
            if "conditions" not in status:
                self._store(JOBS, {**document, "status": {"conditions": [SUSPENSION]}}, _identity(document))
        elif not pods and status.get("made"):
            self.finish_job(name, "Failed")
        elif not pods:
            self._store(JOBS, {**document, "status": {"made": True}}, _identity(document))
            self._make_pod(f"{name}-x", document, {"batch.kubernetes.io/job-name": name})

    def _make_pod(self, name: str, owner: Document, labels: Mapping[str, str]) -> None:
        template = copy.deepcopy(owner["spec"]["template"])
        metadata = {
            **template["metadata"],
            "name": name,
            "labels": {**template["metadata"]["labels"], **labels},
            "ownerReferences": [{"uid": owner["metadata"]["uid"]}],
        }
        pod = {"metadata": metadata, "spec": template["spec"], "status": running(self.clock())}
        self._store(PODS, pod, self._new_identity())

    def _mark(self, name: str, grace_seconds: int | None = None) -> None:
        """Mark a pod for deletion with its own or a given grace period; a repeat can only shorten it."""
        pod = self._objects[(PODS, name)]
        own = pod["spec"].get("terminationGracePeriodSeconds", 30)
        seconds = own if grace_seconds is None else grace_seconds
        if seconds < pod["metadata"].get("deletionGracePeriodSeconds", seconds + 1):
            ends_at = _timestamp(self.clock() + timedelta(seconds=seconds))
            marked = {"deletionTimestamp": ends_at, "deletionGracePeriodSeconds": seconds}
            self._store(PODS, {**pod, "metadata": {**pod["metadata"], **marked}}, _identity(pod))

    def _collect_garbage(self) -> None:
        """Delete pods whose owner does not exist any more."""
        uids = {document["metadata"]["uid"] for document in self._objects.values()}
        for (kind, name), document in list(self._objects.items()):
            owners = {owner["uid"] for owner in document["metadata"].get("ownerReferences", [])}
            if kind == PODS and owners and not owners & uids:
                self._mark(name)

    def _pods_of(self, owner: Document) -> list[Document]:
        uid = owner["metadata"]["uid"]
        return [
            document
            for (kind, _), document in self._objects.items()
            if kind == PODS and uid in [owner["uid"] for owner in document["metadata"]["ownerReferences"]]
        ]

    def _new_identity(self) -> Document:
        return {"uid": f"uid-{next(self._numbers)}", "creationTimestamp": _timestamp(self.clock())}

    def _store(self, kind: Kind, document: Document, identity: Document) -> Document:
        stored = copy.deepcopy(document)
        version = {"resourceVersion": str(next(self._numbers))}
        stored["metadata"] = {**stored["metadata"], **identity, **version}
        self._objects[(kind, stored["metadata"]["name"])] = stored
        return copy.deepcopy(stored)


def _identity(document: Document) -> Document:
    """Return the fields that no update changes."""
    return {key: document["metadata"][key] for key in ("uid", "creationTimestamp")}


def _status(document: Document) -> Document:
    """Return the field that only controllers change."""
    return {key: value for key, value in document.items() if key == "status"}


def _timestamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def running(since: datetime, restarts: int = 0) -> Document:
    """Return status of a pod whose driver runs."""
    state = {"running": {"startedAt": _timestamp(since)}}
    return {"phase": "Running", "containerStatuses": [container(state, restarts=restarts)]}


def crash_looping(since: datetime, reason: str = "Error", exit_code: int = 1) -> Document:
    """Return status of a pod whose driver has ended, and which the kubelet will start again some time."""
    ended = {"startedAt": _timestamp(since), "reason": reason, "exitCode": exit_code}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}
    state = container(waiting, last={"terminated": ended}, restarts=2)
    return {"phase": "Running", "containerStatuses": [state]}


def container(state: Document, *, last: Document | None = None, restarts: int = 0) -> Document:
    """Return status of the driver's container."""
    return {"name": "driver", "state": state, "lastState": last or {}, "restartCount": restarts}


def away(_verb: str, _kind: Kind) -> None:
    """Raise as if the API server did not answer; a value for `before`."""
    raise UnavailableError("TIDE-K8S-001", "The API server is away.")
