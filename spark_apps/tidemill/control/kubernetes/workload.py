"""Create and end the workload of a driver: the StatefulSet of a stream, or the Job of a bounded run."""

from __future__ import annotations

import contextlib

from tidemill.control.kubernetes import slot_objects
from tidemill.control.kubernetes.api import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    JOBS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    ConflictError,
    Document,
    KubernetesApi,
    insist,
)
from tidemill.control.kubernetes.driver_pod import Start
from tidemill.control.kubernetes.observed import Observed, has_finished, is_suspended
from tidemill.control.kubernetes.pod_facts import PodFacts
from tidemill.control.kubernetes.slot_record import is_ours, record_of
from tidemill.control.kubernetes.slot_view import slot_labels
from tidemill.control.runtime import slot_of
from tidemill.errors import SpecError
from tidemill.names import kubernetes_name


def make_workload(api: KubernetesApi, start: Start) -> None:
    """Create the workload of a claim, unless the claim was lost or a stop was requested."""
    if start.run.mode == "stream":
        api.apply(SERVICES, slot_objects.service(start))
        api.apply(DISRUPTION_BUDGETS, slot_objects.disruption_budget(start))
        insist(lambda: _make_stateful_set(api, start))
    else:
        insist(lambda: _make_job(api, start))


def refuse_foreign_objects(api: KubernetesApi, seen: Observed, start: Start) -> None:
    """Raise if an object of this name is not Tidemill's, so that it is never taken over.

    Raises:
        SpecError: TIDE-K8S-005.
    """
    pipeline = start.pipeline.name
    found = [seen.config_map, seen.stateful_set]
    if start.run.mode == "stream":
        found += [api.get(kind, kubernetes_name(pipeline)) for kind in (SERVICES, DISRUPTION_BUDGETS)]
    for document in found:
        if document is not None and not is_ours(document, pipeline):
            raise SpecError(
                "TIDE-K8S-005",
                "An object of the pipeline's name on Kubernetes belongs to someone else.",
                facts={"pipeline": pipeline, "name": document["metadata"]["name"]},
                fix="give the pipeline, or that object, another name",
                runbook="kubernetes-object-refused",
            )


def want_no_pod(api: KubernetesApi, seen: Observed) -> None:
    """End a stream's pod within its grace period, and prevent another one. ConflictError if it changed.

    A repeated call does the missing rest, if any.
    """
    there = seen.stateful_set
    orphans = [] if there is not None else [facts for facts in seen.stream_pods if not facts.is_leaving]
    if not seen.wanted_pods and not orphans:
        return
    # Deleted first, so that it is not forgotten if the next call fails. A budget that allows no disruption
    # blocks cluster upgrades even without a pod (AKS: UnsatisfiablePDB). A start creates it again.
    api.delete(DISRUPTION_BUDGETS, kubernetes_name(seen.pipeline), {})
    for facts in orphans:
        delete_pod(api, facts)
    if there is not None:
        metadata = there["metadata"]
        changes = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"replicas": 0}}
        api.patch(STATEFUL_SETS, metadata["name"], changes)


def remove_jobs(api: KubernetesApi, seen: Observed, run_id: str) -> None:
    """Delete the Jobs of a run; their pods end within their grace period."""
    for job in seen.jobs:
        record = record_of(job)
        if record is not None and record.run_id == run_id:
            uid: Document = {"uid": job["metadata"]["uid"]}
            api.delete(
                JOBS, job["metadata"]["name"], {"propagationPolicy": "Background", "preconditions": uid}
            )


def delete_pod(api: KubernetesApi, facts: PodFacts, grace_seconds: int | None = None) -> None:
    """End exactly this pod, with its own grace period unless one is given.

    A later pod of the same name is left alone.
    """
    grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
    with contextlib.suppress(ConflictError):
        api.delete(PODS, facts.name, {**grace, "preconditions": {"uid": facts.uid}})


def _make_stateful_set(api: KubernetesApi, start: Start) -> bool:
    """Create or replace the StatefulSet at the version that was read.

    So a delayed starter cannot overwrite a newer start. It is never applied, because applying would create a
    missing object even if another starter is involved.
    """
    there = api.get(STATEFUL_SETS, start.slot_name)
    if not _is_still_claimed(api, start):
        return False
    document = slot_objects.stateful_set(start)
    if there is None:
        api.create(STATEFUL_SETS, document)
    else:
        document["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
        api.replace(STATEFUL_SETS, document)
    return True


def _make_job(api: KubernetesApi, start: Start) -> bool:
    """Create the Job so that only one pod runs, even if a starter is delayed between any two steps.

    1. Delete Jobs that older claims left suspended; give up if one runs. 2. Create the Job, suspended. 3.
    Check that the slot is still claimed. 4. Resume the Job.

    Step 3 detects a newer claim that was written before it. A newer claim written after it finds this Job in
    its own step 1. If the Job is still suspended, the newer starter deletes it before step 4; if it runs, the
    newer starter gives up.
    """
    jobs = api.list(JOBS, slot_labels(start.pipeline.name, slot_of(start.run.mode)))
    own = start.record.workload_name(start.pipeline.name)
    others = [job for job in jobs if job["metadata"]["name"] != own and not has_finished(job)]
    # Checked after the list, while this claim is still valid, so all other Jobs are older.
    if others and not (all(map(is_suspended, others)) and _is_still_claimed(api, start)):
        return False
    for job in others:
        _delete_at_version(api, job)
    # The Job may exist already, created by another process for the same claim.
    made = next((job for job in jobs if job["metadata"]["name"] == own), None)
    made = made or api.create(JOBS, slot_objects.job(start))
    if not is_suspended(made):
        return True
    if not _is_still_claimed(api, start):
        _delete_at_version(api, made)
        return False
    version = {"resourceVersion": made["metadata"]["resourceVersion"]}
    api.patch(JOBS, own, {"metadata": version, "spec": {"suspend": False}})
    return True


def _delete_at_version(api: KubernetesApi, job: Document) -> None:
    """Delete a Job unless it has changed since, for example by a resume. ConflictError then."""
    exact = {key: job["metadata"][key] for key in ("uid", "resourceVersion")}
    api.delete(JOBS, job["metadata"]["name"], {"propagationPolicy": "Background", "preconditions": exact})


def _is_still_claimed(api: KubernetesApi, start: Start) -> bool:
    return record_of(api.get(CONFIG_MAPS, start.slot_name)) == start.record
