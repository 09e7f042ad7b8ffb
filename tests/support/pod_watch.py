"""Watches the drivers of one pipeline without a gap, while a test does its worst to them."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.cluster import Cluster, Document, is_ready, uid_of


class PodWatch:
    """What a watch has seen.

    Args:
        process: `kubectl get pods --watch`.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.uids: list[str] = []
        self.two_at_once = threading.Event()
        self._ready: set[str] = set()
        self._process = process
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def is_watching(self) -> bool:
        """Whether it would have seen what happened until now."""
        return self._process.poll() is None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        text = ""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text += line
            # An event takes one line or many: kubectl's versions differ.
            try:
                event = json.loads(text)
            except ValueError:
                continue
            text = ""
            self._take(event["type"], event["object"])

    def _take(self, kind: str, pod: Document) -> None:
        uid = str(uid_of(pod))
        if uid not in self.uids:
            self.uids.append(uid)
        if kind != "DELETED" and is_ready(pod):
            self._ready.add(uid)
        else:
            self._ready.discard(uid)
        if len(self._ready) > 1:
            self.two_at_once.set()


@contextmanager
def watching(cluster: Cluster, selector: str) -> Iterator[PodWatch]:
    """Watch pods for the length of a `with` block."""
    command = ["kubectl", "--namespace", cluster.namespace, "get", "pods", f"--selector={selector}"]
    process = subprocess.Popen(
        [*command, "--watch", "--output-watch-events", "--output=json"], stdout=subprocess.PIPE, text=True
    )
    watch = PodWatch(process)
    try:
        yield watch
    finally:
        watch.end()
