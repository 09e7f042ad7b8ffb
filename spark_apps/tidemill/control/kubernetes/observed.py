"""State of a slot's driver from its objects. Pure: documents in, one start of a driver out.

A driver is alive as long as Kubernetes may run it. For a stream: while its StatefulSet has a replica, or a
pod exists, even a terminating one. For a bounded run: from the moment its Job is resumed until the Job has
finished. One exception: a container in CrashLoopBackOff has ended, and the restart policy decides about its
next start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from tidemill.control.kubernetes.api import Document
from tidemill.control.kubernetes.pod_facts import PodFacts, pod_facts, shortened
from tidemill.control.kubernetes.slot_record import SlotRecord, record_of
from tidemill.control.runtime import StartedDriver
from tidemill.names import kubernetes_name


@dataclass(frozen=True)
class Observed:
    """The objects of one slot at one time.

    Args:
        pipeline: Its pipeline.
        namespace: Namespace of the objects.
        config_map: The claim; None if nothing was ever started here.
        stateful_set: The stream's StatefulSet.
        jobs: Existing Jobs of bounded runs.
        pods: All driver pods.
    """

    pipeline: str
    namespace: str
    config_map: Document | None = None
    stateful_set: Document | None = None
    jobs: tuple[Document, ...] = ()
    pods: tuple[Document, ...] = ()

    @property
    def record(self) -> SlotRecord | None:
        """Return the newest claim."""
        return record_of(self.config_map)

    @property
    def drain_requested_at(self) -> datetime | None:
        """Return the time of the slot's drain request; a claim after it is a new record."""
        return None if self.record is None else self.record.drain_requested_at

    @property
    def wanted_pods(self) -> int:
        """Return the number of replicas of the StatefulSet."""
        return 0 if self.stateful_set is None else int(self.stateful_set["spec"].get("replicas", 1))

    @property
    def stream_pods(self) -> list[PodFacts]:
        """Return the existing pods of the StatefulSet, which replaces an ended one."""
        return [facts for facts in map(pod_facts, self.pods) if not facts.job]

    @property
    def job_pods(self) -> list[PodFacts]:
        """Return the pods of Jobs that have not ended."""
        return [facts for facts in map(pod_facts, self.pods) if facts.job and not facts.has_ended]


def started_driver(observed: Observed, now: datetime) -> StartedDriver | None:
    """Return the newest start in the slot, running or ended; None if there was none."""
    living = _living_stream(observed) or _living_job(observed)
    claim = observed.record
    if living is not None:
        return living
    if claim is None:
        return None
    if claim.is_young(now) and not _has_workload(observed, claim):
        return _describe(observed, claim, "starting", alive=True)
    return _ended(observed, claim)


def is_starting(observed: Observed, now: datetime) -> bool:
    """Return True if the slot is claimed and its workload must still be created."""
    claim = observed.record
    no_driver = _living_stream(observed) is None and _living_job(observed) is None
    return claim is not None and claim.is_young(now) and no_driver and not _has_workload(observed, claim)


def troubled_object(observed: Observed) -> str | None:
    """Return the pod, StatefulSet or Job whose events explain why a driver does not start.

    None if nothing prevents the start, or if the pod's own status already explains it.
    """
    pods = [*observed.stream_pods, *observed.job_pods]
    if pods:
        return next((facts.name for facts in pods if facts.words == "Pending"), None)
    if observed.stateful_set is not None and observed.wanted_pods:
        return str(observed.stateful_set["metadata"]["name"])
    return next((str(job["metadata"]["name"]) for job in observed.jobs if _is_at_work(job)), None)


def has_finished(job: Document) -> bool:
    """Return True if the Job has finished."""
    conditions = job.get("status", {}).get("conditions") or []
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def is_suspended(job: Document) -> bool:
    """Return True if the Job creates no pod until it is resumed."""
    return bool(job["spec"].get("suspend", False))


def newest_words(events: Iterable[Document]) -> str:
    """Return the newest event as readable text."""
    newest = max(events, key=_last_seen, default=None)
    if newest is None:
        return ""
    return shortened(f"{newest.get('reason', '')}: {newest.get('message', '')}")


def _last_seen(event: Document) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")


def _living_stream(observed: Observed) -> StartedDriver | None:
    template = record_of(observed.stateful_set)
    pods = observed.stream_pods
    for facts in pods:
        if not _is_at_rest(facts, observed, template):
            # A pod that is about to be replaced has ended; its successor is the running driver.
            is_old = facts.is_crash_looping and template is not None
            record = (template if is_old else facts.record) or template or observed.record
            return None if record is None else _of_pod(observed, record, facts)
    if observed.wanted_pods and not pods and template is not None:
        return _describe(observed, template, f"pod {_first_pod(observed)}, not made yet", alive=True)
    return None


def _is_at_rest(facts: PodFacts, observed: Observed, template: SlotRecord | None) -> bool:
    """Return True if a pod's driver has ended, and only the kubelet's restart would start it again."""
    if not facts.is_crash_looping:
        return False
    if observed.wanted_pods == 0 or template is None or facts.record is None:
        return True
    return facts.record.is_same_start(template)


def _living_job(observed: Observed) -> StartedDriver | None:
    for facts in observed.job_pods:
        if facts.record is not None:
            return _of_pod(observed, facts.record, facts)
    for job in observed.jobs:
        record = record_of(job)
        if record is not None and _is_at_work(job):
            name = job["metadata"]["name"]
            return _describe(observed, record, f"job {name}, no pod made yet", alive=True, log=f"job/{name}")
    return None


def _is_at_work(job: Document) -> bool:
    return not has_finished(job) and not is_suspended(job)


def _has_workload(observed: Observed, claim: SlotRecord) -> bool:
    """Return True if the workload of exactly this claim was created and resumed."""
    jobs = [job for job in observed.jobs if not is_suspended(job)]
    made = [*jobs, *([observed.stateful_set] if observed.stateful_set else [])]
    records = map(record_of, made)
    return any(record is not None and record.is_same_start(claim) for record in records)


def _ended(observed: Observed, claim: SlotRecord) -> StartedDriver:
    """Return the end of the claim's driver, from its pod if that still exists."""
    for facts in map(pod_facts, observed.pods):
        if facts.record is not None and facts.record.is_same_start(claim):
            return _of_pod(observed, claim, facts, alive=False)
    ended = _describe(observed, claim, "no pod", alive=False)
    return replace(ended, made=_has_workload(observed, claim))


def _of_pod(observed: Observed, record: SlotRecord, facts: PodFacts, *, alive: bool = True) -> StartedDriver:
    is_own = facts.record is not None and facts.record.is_same_start(record)
    # The kubelet may restart a stream's container under the same run id. The start time distinguishes the
    # receipts and documents of both lives. A bounded run is started once.
    started_at = facts.started_at if record.mode == "stream" and is_own else None
    log = facts.name if not facts.is_crash_looping else f"{facts.name} --previous"
    return StartedDriver(
        pipeline=observed.pipeline,
        mode=record.mode,
        run_id=record.run_id,
        digest=record.digest,
        claimed_at=record.started_at,
        started_at=started_at or record.started_at,
        log=f"kubectl logs -n {observed.namespace} {log}",
        process=facts.process,
        alive=alive,
        drain_requested_at=observed.drain_requested_at,
        termination="" if alive else facts.termination,
        exit_code=None if alive else facts.exit_code,
    )


def _describe(
    observed: Observed, record: SlotRecord, process: str, *, alive: bool, log: str = ""
) -> StartedDriver:
    job = f"job/{record.workload_name(observed.pipeline)}"
    target = log or (_first_pod(observed) if record.mode == "stream" else job)
    return StartedDriver(
        pipeline=observed.pipeline,
        mode=record.mode,
        run_id=record.run_id,
        digest=record.digest,
        claimed_at=record.started_at,
        started_at=record.started_at,
        log=f"kubectl logs -n {observed.namespace} {target}",
        process=process,
        alive=alive,
        drain_requested_at=observed.drain_requested_at,
    )


def _first_pod(observed: Observed) -> str:
    return f"{kubernetes_name(observed.pipeline)}-0"
