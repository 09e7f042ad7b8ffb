"""Send requests to the API server from inside a pod, with the pod's own token: JSON in, JSON out.

The program runs in a driver's pod, as any author of a transform could run it: `python -c <this file> <
requests`. A request is `[method, path]` or `[method, path, content type, body]`. The answer is the status
and, if the request is refused, the API server's message.
"""

import json
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API = "https://kubernetes.default.svc"

# Longest answer that is of interest, in bytes.
SHOWN = 600


def ask(method: str, path: str, content: str = "application/json", body: Any = None) -> tuple[int, str]:
    token = (ACCOUNT / "token").read_text()
    request = urllib.request.Request(
        f"{API}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": content},
        method=method,
    )
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=30, context=trusted) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read(SHOWN).decode("utf-8", "replace")


json.dump([ask(*request) for request in json.load(sys.stdin)], sys.stdout)
