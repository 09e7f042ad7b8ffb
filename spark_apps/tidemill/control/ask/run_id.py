"""Run ids: readable, safe in file names and arguments, and the same for the same request."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime

# Maximum length of a run id, which is used in file names (255 bytes), commit metadata and log lines. The run
# id of a scheduled Airflow run has about 45 characters.
LONGEST_RUN_ID = 100


def new_run_id(kind: str, at: datetime) -> str:
    """Return a new, unique run id: `stream-20260131T120000Z-1f2e3d`."""
    return f"{kind}-{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def run_id_of(request: str) -> str:
    """Return the run id of a named request, such as an Airflow run; always the same for the same name.

    Characters that are not safe in a file name become `-`. The digest distinguishes names that this, or the
    length limit, makes equal.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", request).strip("-.")
    digest = hashlib.sha256(request.encode()).hexdigest()[:8]
    return f"{plain[: LONGEST_RUN_ID - 9]}-{digest}"
