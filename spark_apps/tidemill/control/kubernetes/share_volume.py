"""Share one volume between two claims after an install: in Airflow's and in the streams' namespace.

    python -m tidemill.control.kubernetes.share_volume CLAIM NAMESPACE STREAMS_NAMESPACE LABEL

A claim belongs to one namespace, and a storage class creates a volume for one claim. So a second
PersistentVolume describes the volume of the first claim, and is reserved for the second claim. This is valid
for a volume that is a folder of a single node, or a share that many pods mount. A cloud disk may refuse it.
The chart runs this program.
"""

from __future__ import annotations

import sys
import time

from tidemill.control.kubernetes.in_pod import POLL_SECONDS, Document, call

# Label by which the second claim selects its volume.
LABEL = "tidemill/volume-of"

# Fields of a volume that concern its claim and not the location of its files.
ABOUT_THE_CLAIM = frozenset({"claimRef", "persistentVolumeReclaimPolicy", "storageClassName"})

# Maximum seconds to wait for a claim. The Job that runs this program has a limit of 240.
WAIT_SECONDS = 200


def place_of(volume: Document) -> Document:
    """Return the location of a volume's files, and its mount options."""
    return {key: value for key, value in volume["spec"].items() if key not in ABOUT_THE_CLAIM}


def second_volume(volume: Document, claim: Document, label: str) -> Document:
    """Return a volume with the same files for another claim; deleting a claim never deletes the files."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        # Named after this claim, so that a recreated claim gets a new volume.
        "metadata": {"name": f"tidemill-{metadata['uid']}", "labels": {LABEL: label}},
        "spec": {
            **place_of(volume),
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }


def share(claim: str, namespace: str, streams_namespace: str, label: str) -> str:
    """Create the second volume unless it exists, and return its name.

    Raises:
        SystemExit: If the second claim has another volume, because there would be two lakes.
    """
    first, second = _bound(namespace, claim), _claim(streams_namespace, claim)
    volume = _volume(first["spec"]["volumeName"])
    wanted = second_volume(volume, second, label)
    name = str(wanted["metadata"]["name"])
    if call("GET", f"/api/v1/persistentvolumes/{name}") is None and not second["spec"].get("volumeName"):
        call("POST", "/api/v1/persistentvolumes", wanted)
    found = _volume(_bound(streams_namespace, claim)["spec"]["volumeName"])
    if place_of(found) != place_of(volume):
        raise SystemExit(
            f"claim {claim} has one volume in {namespace} and another in {streams_namespace}: streams would"
            " write where Airflow does not look. Delete the claim whose files nobody needs, then upgrade"
        )
    return name


def _claim(namespace: str, name: str) -> Document:
    found = call("GET", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
    if found is None:
        raise SystemExit(f"there is no claim {name} in {namespace}")
    return found


def _bound(namespace: str, name: str) -> Document:
    """Return a claim after it is bound to a volume."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := _claim(namespace, name)).get("status", {}).get("phase") != "Bound":
        if time.monotonic() > deadline:
            raise SystemExit(f"claim {name} in {namespace} has no volume after {WAIT_SECONDS} s")
        time.sleep(POLL_SECONDS)
    return found


def _volume(name: str) -> Document:
    found = call("GET", f"/api/v1/persistentvolumes/{name}")
    if found is None:
        raise SystemExit(f"there is no volume {name}")
    return found


if __name__ == "__main__":
    sys.stdout.write(f"streams have the volume {share(*sys.argv[1:])}\n")
