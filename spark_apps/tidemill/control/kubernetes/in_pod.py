"""One call of the API server from inside a pod, with its account's token. Standard library only.

For the chart's small programs, because the spark image has no Kubernetes client.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API = "https://kubernetes.default.svc"

# Seconds for one answer of the API server.
ANSWER_SECONDS = 10

# Seconds between two polls.
POLL_SECONDS = 1.0

Document = dict[str, Any]


def call(method: str, path: str, body: Document | None = None) -> Document | None:
    """Return the answer; None if the object does not exist.

    Raises:
        urllib.error.HTTPError: If the API server rejects the call.
        OSError: If it does not answer.
    """
    request = urllib.request.Request(  # noqa: S310  # the cluster's own https address
        f"{API}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
            "Content-Type": "application/json",
        },
        method=method,
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=context) as answer:  # noqa: S310
            document: Document = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise
    return document
