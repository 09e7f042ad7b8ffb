"""Report of a cluster for the analysis of a failure: pods, events, and the end of every log."""

from __future__ import annotations

from tests.support.cluster import Cluster
from tests.support.release import Release

# Lines of each log: one Python traceback and what led to it.
SHOWN_LINES = 100

# Characters of each line: Airflow writes a thousand where two hundred say it.
SHOWN_CHARACTERS = 240


def report_on(release: Release) -> str:
    """Pods, events and logs of both namespaces."""
    return "\n".join(_of_namespace(cluster) for cluster in (release.cluster, release.streams))


def _of_namespace(cluster: Cluster) -> str:
    parts = [
        cluster.attempt("get", "pods,statefulsets,jobs", "--output=wide").stdout,
        cluster.attempt("get", "events", "--sort-by=.lastTimestamp").stdout[-8_000:],
    ]
    for pod in cluster.pods():
        name = pod["metadata"]["name"]
        parts.append(f"--- {name}\n{_end_of_log(cluster, name)}")
        if any(status.get("restartCount") for status in pod["status"].get("containerStatuses", [])):
            parts.append(f"--- {name}, before\n{_end_of_log(cluster, name, '--previous')}")
    return "\n".join(parts)


def _end_of_log(cluster: Cluster, pod: str, *options: str) -> str:
    lines = cluster.logs(pod, f"--tail={SHOWN_LINES}", *options).splitlines()
    return "\n".join(line[:SHOWN_CHARACTERS] for line in lines)
