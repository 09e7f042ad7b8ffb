"""The ConfigMap of a slot: the holder of the slot, and the decision that was made for it.

A starter holds the slot after it has created the ConfigMap, or replaced the version that it read; if several
starters race, the API server lets one win. The annotations are the record. The data is mounted into the
driver's pod, so that a restarted pod runs the decided version, even after an upgrade of the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast, get_args

from tidemill.control.driver_command import Mode
from tidemill.control.kubernetes.api import Document
from tidemill.control.runtime import Slot
from tidemill.errors import UsageError
from tidemill.names import kubernetes_job_name, kubernetes_name
from tidemill.spec.pod import MANAGED_BY_LABEL, PIPELINE_LABEL

RUN_ID = "tidemill/run-id"
MODE = "tidemill/mode"
DIGEST = "tidemill/spec-digest"
STARTED_AT = "tidemill/started-at"
DRAIN_REQUESTED_AT = "tidemill/drain-requested-at"

# Label of every object of a slot.
SLOT_LABEL = "tidemill/slot"

# Keys of the ConfigMap's data.
PIPELINE_KEY = "pipeline.yaml"
ENVIRONMENT_KEY = "environment.yaml"
RESOLVED_KEY = "resolved.json"
HISTORY_KEY = "history.json"

# Time for which a claim without a workload counts as starting: the maximum duration of one call (client.py).
# All calls from the claim to the workload usually take a tenth of a second. Afterwards the starter counts as
# dead. If it was only delayed, it starts no second driver, because it finds that its claim is lost
# (workload.py).
START_GRACE = timedelta(seconds=30)


@dataclass(frozen=True)
class SlotRecord:
    """One start of a driver, in the annotations of slot, workload and pod.

    Args:
        run_id: Id of the run.
        mode: Its mode.
        digest: Digest of the definition it was started with.
        started_at: Time of the claim, which identifies one start together with `run_id`.
        drain_requested_at: Time of the stop request; on the slot only.
    """

    run_id: str
    mode: Mode
    digest: str
    started_at: datetime
    drain_requested_at: datetime | None = None

    def annotations(self) -> dict[str, str]:
        """Return the record as annotations of an object."""
        drain = self.drain_requested_at
        return {
            RUN_ID: self.run_id,
            MODE: self.mode,
            DIGEST: self.digest,
            STARTED_AT: self.started_at.isoformat(),
            **({} if drain is None else {DRAIN_REQUESTED_AT: drain.isoformat()}),
        }

    def is_same_start(self, other: SlotRecord) -> bool:
        """Return True if both records describe the same start."""
        return (self.run_id, self.started_at) == (other.run_id, other.started_at)

    def is_young(self, now: datetime) -> bool:
        """Return True if its workload may still be created."""
        return self.drain_requested_at is None and now - self.started_at < START_GRACE

    def workload_name(self, pipeline: str) -> str:
        """Return the name of this start's StatefulSet or Job."""
        if self.mode == "stream":
            return kubernetes_name(pipeline)
        return kubernetes_job_name(pipeline, f"{self.run_id} {self.started_at.isoformat()}")


def record_of(document: Document | None) -> SlotRecord | None:
    """Return the start in an object's annotations; None without an object or a start.

    Raises:
        UsageError: TIDE-K8S-008, if the annotations are damaged.
    """
    found = {} if document is None else document["metadata"].get("annotations") or {}
    if RUN_ID not in found:
        return None
    try:
        if found[MODE] not in get_args(Mode):
            raise ValueError(f"no mode: {found[MODE]}")
        drain = found.get(DRAIN_REQUESTED_AT)
        return SlotRecord(
            run_id=found[RUN_ID],
            mode=cast(Mode, found[MODE]),
            digest=found[DIGEST],
            started_at=_moment(found[STARTED_AT]),
            drain_requested_at=None if drain is None else _moment(drain),
        )
    except (KeyError, ValueError) as error:
        raise _damaged(document, error) from error


def is_ours(document: Document, pipeline: str) -> bool:
    """Return True if Tidemill made the object for this pipeline."""
    labels = document["metadata"].get("labels") or {}
    return (labels.get(MANAGED_BY_LABEL), labels.get(PIPELINE_LABEL)) == ("tidemill", pipeline)


def slot_in(document: Document) -> tuple[str, Slot]:
    """Return pipeline and slot of an object, from its labels."""
    labels = document["metadata"].get("labels") or {}
    slot = labels.get(SLOT_LABEL)
    return labels.get(PIPELINE_LABEL, ""), cast(Slot, slot) if slot in get_args(Slot) else "main"


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"a time without a zone: {text}")
    return moment


def _damaged(document: Document | None, error: Exception) -> UsageError:
    name = "" if document is None else f"{document.get('kind', 'object')} {document['metadata']['name']}"
    return UsageError(
        "TIDE-K8S-008",
        "The record of a driver on Kubernetes cannot be read.",
        facts={"object": name, "cause": f"{type(error).__name__}: {error}"},
        fix="see that no driver of this pipeline runs, then delete the ConfigMap of its slot",
        runbook="kubernetes-object-refused",
    )
