"""After an install: one volume for two claims, of Airflow's namespace and of the streams'.

    python -m tidemill.control.kubernetes.share_volume CLAIM NAMESPACE STREAMS_NAMESPACE LABEL

A claim is of one namespace, and a storage class makes a volume for one claim. So the volume behind the first
claim is described by a second PersistentVolume, which waits for the second claim. Right where a volume is a
folder of the one node, or a share that many pods mount; a cloud's disk may refuse. Run by the chart.
"""

from __future__ import annotations

import sys
import time

from tidemill.control.kubernetes.in_pod import POLL_SECONDS, Document, call

# Label by which the second claim knows its volume.
LABEL = "tidemill/volume-of"

# What of a volume is about its claim, and not about where its files are.
ABOUT_THE_CLAIM = frozenset({"claimRef", "persistentVolumeReclaimPolicy", "storageClassName"})

# Longest wait for a claim, in seconds. The Job that runs this is given 240.
WAIT_SECONDS = 200


def place_of(volume: Document) -> Document:
    """Where the files of a volume are, and how it may be mounted."""
    return {key: value for key, value in volume["spec"].items() if key not in ABOUT_THE_CLAIM}


def second_volume(volume: Document, claim: Document, label: str) -> Document:
    """The description of the same files for another claim; no claim's end deletes them."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        # Named for this very claim: one that is made anew gets a volume anew.
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
    """Make the second volume, unless it is there; returns its name.

    Raises:
        SystemExit: If the second claim has another volume: there would be two lakes.
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
    """A claim, once it has its volume."""
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
