"""Names of runs: readable, safe as a file name and an argument, the same for the same request."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime

# Longest run id. It stands in file names (255 bytes), commit metadata and log lines; an Airflow run id
# of a scheduled run has about 45 characters.
LONGEST_RUN_ID = 100


def new_run_id(kind: str, at: datetime) -> str:
    """A run id that nobody has used: `stream-20260131T120000Z-1f2e3d`."""
    return f"{kind}-{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def run_id_of(request: str) -> str:
    """The run id of a named request, always the same: an Airflow run id becomes its run's name.

    Characters that do not belong into a file name become `-`; where that, or a length limit, makes
    two names alike, the digest tells them apart.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", request).strip("-.")
    digest = hashlib.sha256(request.encode()).hexdigest()[:8]
    return f"{plain[: LONGEST_RUN_ID - 9]}-{digest}"
