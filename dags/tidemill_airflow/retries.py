"""How tasks that may be repeated are repeated: each finds what the try before it started."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

# Soon, then less often: most failures that a retry mends are Airflow's own (a lost worker, a deferred task
# that its scheduler lost sight of) and over at once; a driver waits for a source that is away by itself.
REPEATED: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=2),
}
