"""A real Prometheus that scrapes one address, and its rules at once instead of after minutes."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually
from tidemill.dev.ports import free_ports

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".cache" / "monitoring" / "usr" / "bin"
RULES = ROOT / "helm" / "tidemill" / "files" / "rules"
DASHBOARDS = ROOT / "helm" / "tidemill" / "files" / "dashboards"

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}/*.yaml"]
scrape_configs:
  - job_name: tidemill
    static_configs: [{{targets: ["{target}"]}}]
"""


def program(name: str) -> Path:
    """Return the path of Prometheus or promtool; fail if it is missing."""
    file = PROGRAMS / name
    assert file.is_file(), f"{file} is missing: make monitoring"
    return file


@dataclass(frozen=True)
class Prometheus:
    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the current result of an expression."""
        words = urllib.parse.urlencode({"query": expression})
        result: list[dict[str, Any]] = self._get(f"query?{words}")["result"]
        return result

    def firing(self) -> set[tuple[str, str]]:
        """Return the firing alerts with their subject: a pipeline, a component, or nothing."""
        return {
            (
                alert["labels"]["alertname"],
                alert["labels"].get("pipeline", alert["labels"].get("component", "")),
            )
            for alert in self._get("alerts")["alerts"]
            if alert["state"] == "firing"
        }

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=30) as answer:
            data: dict[str, Any] = json.load(answer)["data"]
        return data

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=30) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Yield a Prometheus that scrapes `host:port` every second, with the chart's rules.

    The rules are the chart's but for `for`: here an alert fires as soon as it is true.
    """
    rules = folder / "rules"
    rules.mkdir(parents=True)
    for file in RULES.glob("*.yaml"):
        (rules / file.name).write_text(re.sub(r"\bfor: \w+", "for: 0s", file.read_text()))
    (folder / "prometheus.yml").write_text(CONFIG.format(rules=rules, target=target))
    (port,) = free_ports(1)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        eventually(server.is_ready, f"Prometheus answers; see {folder}/log")
        yield server
    finally:
        process.terminate()
        process.wait(30)
