"""The API server through the official client: documents in, documents out, errors with a fix."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tidemill.control.kubernetes.api import FIELD_MANAGER, PODS, ConflictError, Document, Kind
from tidemill.control.kubernetes.cluster_access import cluster_settings
from tidemill.errors import SpecError, TidemillError, UnavailableError

# Seconds to connect to the API server, in two tries, and to wait for its answer: at most 30 for one call. It
# usually answers in milliseconds. Without an API server, a reconciliation of all streams must fail within a
# minute, its schedule.
CONNECT_SECONDS = 5
READ_SECONDS = 20

# Maximum objects in one answer: 1,000 running streams, with twice as many pods during a replacement, need one
# request for each kind. 1,000 pods have 3.4 MB, claims 2 MB and StatefulSets 4 MB; with the API server's
# additions some 10 MB. All pages are in memory anyway, so smaller pages would save no memory.
PAGE = 2_000

# Maximum characters shown of a rejection's reason, because Kubernetes repeats whole documents in some.
LONGEST_REASON = 500


class _ExpiredError(UnavailableError):
    """The version at which a list began has expired: start the list again."""


class KubernetesClient:
    """One namespace of a cluster.

    Args:
        namespace: Its name.
        connection: The Airflow connection to the cluster; see `cluster_access`.

    Raises:
        UnavailableError: TIDE-K8S-007, if no cluster is reachable from here.
    """

    def __init__(self, namespace: str, connection: str | None = None) -> None:
        settings = cluster_settings(connection)
        from kubernetes.client import ApiClient

        self._namespace = namespace
        self._client = ApiClient(settings)

    def namespace(self) -> Document:
        """Return the namespace itself."""
        path = f"/api/v1/namespaces/{self._namespace}"
        found = self._call("GET", path)
        if found is None:
            raise SpecError(
                "TIDE-K8S-012",
                "The namespace of the environment does not exist.",
                facts={"namespace": self._namespace},
                fix="create it, or correct `kubernetes.namespace` of the environment",
                runbook="kubernetes-object-refused",
            )
        return found

    def get(self, kind: Kind, name: str) -> Document | None:
        """Return one object; None if it does not exist."""
        return self._call("GET", self._path(kind, name))

    def list(
        self, kind: Kind, labels: Mapping[str, str], fields: Mapping[str, str] | None = None
    ) -> list[Document]:
        """Return all pages of the objects that have all these labels and fields."""
        query = {"labelSelector": _selector(labels), "limit": str(PAGE)}
        if fields:
            query["fieldSelector"] = _selector(fields)
        try:
            return [*self._pages(kind, query)]
        except _ExpiredError:
            return [*self._pages(kind, query)]

    def create(self, kind: Kind, document: Document) -> Document:
        """Create an object; ConflictError if the name exists."""
        return self._call("POST", self._path(kind), document, _MANAGER) or {}

    def check(self, kind: Kind, document: Document) -> None:
        """Check by a dry run that an object could be created."""
        self._call("POST", self._path(kind), document, {**_MANAGER, "dryRun": "All"})

    def replace(self, kind: Kind, document: Document) -> Document:
        """Replace an object; ConflictError if its `resourceVersion` is no longer the document's."""
        path = self._path(kind, document["metadata"]["name"])
        replaced = self._call("PUT", path, document, _MANAGER)
        if replaced is None:
            raise _conflict(path)
        return replaced

    def apply(self, kind: Kind, document: Document) -> Document:
        """Create an object or update it to the document."""
        path = self._path(kind, document["metadata"]["name"])
        query = {**_MANAGER, "force": "true"}
        return self._call("PATCH", path, document, query, "application/apply-patch+yaml") or {}

    def patch(self, kind: Kind, name: str, changes: Document) -> Document | None:
        """Merge changes into an object; None if it does not exist."""
        return self._call("PATCH", self._path(kind, name), changes, _MANAGER, "application/merge-patch+json")

    def delete(self, kind: Kind, name: str, options: Document) -> bool:
        """Delete an object; False if it does not exist."""
        return self._call("DELETE", self._path(kind, name), options) is not None

    def log(
        self, pod: str, container: str, lines: int, *, previous: bool = False, since: datetime | None = None
    ) -> str:
        """Return the newest lines of a container, each after its timestamp; empty if there are none."""
        query = {
            "container": container,
            "tailLines": str(lines),
            "previous": str(previous).lower(),
            "timestamps": "true",
        }
        if since is not None:
            # The API accepts whole seconds only.
            query["sinceTime"] = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            return self._send("GET", f"{self._path(PODS, pod)}/log", None, query, "") or ""
        except SpecError:
            # 400: no container has started yet, or there was no previous one.
            return ""

    def _pages(self, kind: Kind, query: Mapping[str, str]) -> Iterator[Document]:
        token = ""
        while True:
            page = {**query, "continue": token} if token else query
            answer = self._call("GET", self._path(kind), query=page) or {}
            yield from answer.get("items", [])
            token = answer.get("metadata", {}).get("continue")
            if not token:
                return

    def _path(self, kind: Kind, name: str = "") -> str:
        # Names are made by `names.py` or read from objects, so they need no quoting.
        path = f"{kind.group}/namespaces/{self._namespace}/{kind.plural}"
        return f"{path}/{name}" if name else path

    def _call(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> Document | None:
        text = self._send(method, path, body, query or {}, content)
        return None if text is None else json.loads(text or "{}")

    def _send(
        self, method: str, path: str, body: Document | None, query: Mapping[str, str], content: str
    ) -> str | None:
        """Return the answer's text; None if the object does not exist."""
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        headers = {"Accept": "application/json, */*", **({"Content-Type": content} if content else {})}
        try:
            response: Any = self._client.call_api(
                path,
                method,
                query_params=list(query.items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=(CONNECT_SECONDS, READ_SECONDS),
            )
            return bytes(response.data).decode("utf-8", "replace")
        except ApiException as error:
            if error.status == 404 and method != "POST":
                return None
            raise _said_no(path, error.status, _reason(error.body, error.reason)) from error
        except (HTTPError, OSError) as error:
            raise _away(self._client.configuration.host, f"{type(error).__name__}: {error}") from error


_MANAGER = {"fieldManager": FIELD_MANAGER}


def _selector(wanted: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in wanted.items())


def _reason(body: object, reason: object) -> str:
    """Return the API server's message, shortened."""
    try:
        said = json.loads(body if isinstance(body, (str, bytes)) else "")["message"]
    except (ValueError, KeyError, TypeError):
        said = body or reason
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return " ".join(text.split())[:LONGEST_REASON]


# Messages of rejections by quotas and admission rules (webhooks, policies, pod security, limits), with any
# status. RBAC instead says `forbidden: User "…" cannot …`.
_BY_ADMISSION = re.compile(
    r"admission|denied|exceeded quota|violates|forbidden: (?!User )|failed calling webhook"
)


def _said_no(path: str, status: int, reason: str) -> TidemillError:
    if status in (400, 403, 422, 500) and _BY_ADMISSION.search(reason):
        return UnavailableError(
            "TIDE-K8S-011",
            "The cluster's quota, or one of its admission rules, rejects an object.",
            facts={"path": path, "status": status, "reason": reason},
            fix="raise the quota, or correct the rule or what it objects to; it is tried again by itself",
            runbook="kubernetes-object-refused",
        )
    if status in (401, 403):
        return UnavailableError(
            "TIDE-K8S-002",
            "The Kubernetes API server does not allow it.",
            facts={"path": path, "status": status, "reason": reason},
            fix="grant it to the service account (helm/tidemill/templates/streams)",
            runbook="kubernetes-unavailable",
        )
    if status in (409, 412):
        return _conflict(path)
    if status == 410:
        return _away(path, f"{status} {reason}", _ExpiredError)
    if status in (0, 408, 429) or status >= 500:
        return _away(path, f"{status} {reason}")
    return SpecError(
        "TIDE-K8S-004",
        "The Kubernetes API server refuses an object.",
        facts={"path": path, "status": status, "reason": reason},
        fix="correct `kubernetes` or `sizes` of the environment; or an admission rule of the cluster said no",
        runbook="kubernetes-object-refused",
    )


def _conflict(path: str) -> ConflictError:
    return ConflictError(
        "TIDE-K8S-003",
        "Someone else changed an object on Kubernetes at the same moment; nothing was done.",
        facts={"path": path},
        fix="try again",
        runbook="kubernetes-unavailable",
    )


def _away(where: str, reason: str, kind: type[UnavailableError] = UnavailableError) -> UnavailableError:
    return kind(
        "TIDE-K8S-001",
        "The Kubernetes API server does not answer. Drivers that run go on.",
        facts={"where": where, "reason": reason[:LONGEST_REASON]},
        fix="try again once it is back",
        runbook="kubernetes-unavailable",
    )
