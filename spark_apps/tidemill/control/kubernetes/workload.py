"""Making and ending what runs a driver: the StatefulSet of a stream, the Job of a bounded run."""

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
from tidemill.control.kubernetes.observed import Observed
from tidemill.control.kubernetes.pod_facts import PodFacts
from tidemill.control.kubernetes.slot_record import is_ours, record_of
from tidemill.errors import SpecError
from tidemill.names import kubernetes_name


def make_workload(api: KubernetesApi, start: Start) -> None:
    """Make the workload of a claim, unless the claim was lost, or a stop was asked for, meanwhile."""
    if start.run.mode == "stream":
        api.apply(SERVICES, slot_objects.service(start))
        api.apply(DISRUPTION_BUDGETS, slot_objects.disruption_budget(start))
        insist(lambda: _make_stateful_set(api, start))
    elif _is_still_claimed(api, start):
        # Its name is that of this start: if it is there, another hand has made it for the same claim.
        with contextlib.suppress(ConflictError):
            api.create(JOBS, slot_objects.job(start))


def refuse_foreign_objects(api: KubernetesApi, seen: Observed, start: Start) -> None:
    """Never take over what somebody else has made under this name.

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
                "An object of the pipeline's name on Kubernetes belongs to somebody else.",
                facts={"pipeline": pipeline, "name": document["metadata"]["name"]},
                fix="give the pipeline, or that object, another name",
                runbook="kubernetes-object-refused",
            )


def want_no_pod(api: KubernetesApi, seen: Observed) -> None:
    """Have a stream's pod ended within its grace period, and no other made. ConflictError if it changed."""
    if seen.stateful_set is None or seen.wanted_pods == 0:
        return
    metadata = seen.stateful_set["metadata"]
    changes = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "spec": {"replicas": 0}}
    api.patch(STATEFUL_SETS, metadata["name"], changes)


def remove_jobs(api: KubernetesApi, seen: Observed, run_id: str) -> None:
    """Delete the Jobs of a run; their pods are ended within their grace period."""
    for job in seen.jobs:
        record = record_of(job)
        if record is not None and record.run_id == run_id:
            uid: Document = {"uid": job["metadata"]["uid"]}
            api.delete(
                JOBS, job["metadata"]["name"], {"propagationPolicy": "Background", "preconditions": uid}
            )


def delete_pod(api: KubernetesApi, facts: PodFacts, grace_seconds: int) -> None:
    """End this very pod; another one that has its name by now is left alone."""
    try:
        api.delete(
            PODS, facts.name, {"gracePeriodSeconds": grace_seconds, "preconditions": {"uid": facts.uid}}
        )
    except ConflictError:
        return


def _make_stateful_set(api: KubernetesApi, start: Start) -> bool:
    """At the version that is there, so that no starter who was held up takes a newer start's place."""
    there = api.get(STATEFUL_SETS, start.slot_name)
    if not _is_still_claimed(api, start):
        return False
    document = slot_objects.stateful_set(start)
    if there is not None:
        document["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
    api.apply(STATEFUL_SETS, document)
    return True


def _is_still_claimed(api: KubernetesApi, start: Start) -> bool:
    return record_of(api.get(CONFIG_MAPS, start.slot_name)) == start.record
