"""One volume for the claims of two namespaces."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tidemill.control.kubernetes import share_volume

Document = dict[str, Any]

FOLDER = {"hostPath": {"path": "/var/lib/volumes/pvc-1", "type": "DirectoryOrCreate"}}
SPEC = {"capacity": {"storage": "20Gi"}, "accessModes": ["ReadWriteOnce"], "nodeAffinity": {"required": {}}}
VOLUME: Document = {
    "metadata": {"name": "pvc-1"},
    "spec": {
        **SPEC,
        **FOLDER,
        "storageClassName": "standard",
        "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {"namespace": "tidemill", "name": "tidemill-data"},
    },
}


def claim(namespace: str, uid: str, volume: str | None) -> Document:
    bound = {"phase": "Pending"} if volume is None else {"phase": "Bound"}
    spec = {} if volume is None else {"volumeName": volume}
    return {
        "metadata": {"namespace": namespace, "name": "tidemill-data", "uid": uid},
        "spec": spec,
        "status": bound,
    }


class Server:
    """Claims and volumes in memory; a claim that waits is bound by a volume that names it."""

    def __init__(self, second: str | None = None) -> None:
        self.claims = {
            "tidemill": claim("tidemill", "uid-1", "pvc-1"),
            "streams": claim("streams", "uid-2", second),
        }
        self.volumes = {"pvc-1": VOLUME}

    def call(self, method: str, path: str, body: Document | None = None) -> Document | None:
        parts = path.split("/")
        if method == "POST":
            assert body is not None
            self.volumes[body["metadata"]["name"]] = body
            meant = body["spec"]["claimRef"]
            self.claims[meant["namespace"]] = claim(
                meant["namespace"], meant["uid"], body["metadata"]["name"]
            )
            return body
        return self.volumes.get(parts[-1]) if parts[3] == "persistentvolumes" else self.claims[parts[4]]


def share(server: Server, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(share_volume, "call", server.call)
    return share_volume.share("tidemill-data", "tidemill", "streams", "tidemill.tidemill")


def test_the_second_claim_gets_the_files_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    name = share(server, monkeypatch)
    made = server.volumes[name]
    assert made["metadata"] == {
        "name": "tidemill-uid-2",
        "labels": {"tidemill/volume-of": "tidemill.tidemill"},
    }
    assert made["spec"] == {
        **SPEC,
        **FOLDER,
        "storageClassName": "",
        # Deleting the claim deletes no file.
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "streams",
            "name": "tidemill-data",
            "uid": "uid-2",
        },
    }


def test_an_upgrade_makes_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    share(server, monkeypatch)
    before = dict(server.volumes)
    share(server, monkeypatch)
    assert server.volumes == before


def test_two_lakes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(second="old")
    elsewhere = {"hostPath": {"path": "/var/lib/volumes/old"}}
    server.volumes["old"] = {"metadata": {"name": "old"}, "spec": {**SPEC, **elsewhere}}
    with pytest.raises(SystemExit, match="one volume in tidemill and another in streams"):
        share(server, monkeypatch)


@pytest.mark.parametrize("program", ["share_volume", "drain_all"])
def test_a_program_of_the_chart_needs_no_more_than_any_image_has(program: str) -> None:
    seen = f"import sys, tidemill.control.kubernetes.{program}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout
    known = sys.stdlib_module_names | {"__main__", "tidemill"}
    editable = {name for name in loaded.split() if name.startswith("__editable__")}
    others = {name.partition(".")[0] for name in loaded.split()} - known - editable
    assert not {name for name in others if not name.startswith("_")}, others
