"""Read the documents of one slot, or of all slots in a namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tidemill.control.kubernetes.api import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    PODS,
    STATEFUL_SETS,
    Document,
    KubernetesApi,
)
from tidemill.control.kubernetes.observed import Observed, newest_words, troubled_object
from tidemill.control.kubernetes.slot_record import SLOT_LABEL, slot_in
from tidemill.control.runtime import Slot
from tidemill.errors import TidemillError
from tidemill.names import kubernetes_name
from tidemill.spec.pod import COMPONENT_LABEL, MANAGED_BY_LABEL, PIPELINE_LABEL

_OURS = {MANAGED_BY_LABEL: "tidemill"}
_DRIVERS = {COMPONENT_LABEL: "driver"}


def slot_labels(pipeline: str, slot: Slot) -> dict[str, str]:
    """Return the labels that select the objects of one slot."""
    return {**_OURS, PIPELINE_LABEL: pipeline, SLOT_LABEL: slot}


def look(api: KubernetesApi, namespace: str, pipeline: str, slot: Slot) -> Observed:
    """Return the documents of one slot.

    The claim is read first. If a later claim at this version succeeds, no other starter claimed the slot in
    between, and the workloads that were read belong to this claim.
    """
    labels = slot_labels(pipeline, slot)
    name = kubernetes_name(pipeline, slot)
    return Observed(
        pipeline=pipeline,
        namespace=namespace,
        config_map=api.get(CONFIG_MAPS, name),
        stateful_set=api.get(STATEFUL_SETS, name) if slot == "main" else None,
        jobs=tuple(api.list(JOBS, labels)),
        pods=tuple(api.list(PODS, {**labels, **_DRIVERS})),
    )


def look_at_all(api: KubernetesApi, namespace: str) -> list[Observed]:
    """Return the documents of all main slots, always in four calls; each slot's claim is read first."""
    labels: Mapping[str, str] = {**_OURS, SLOT_LABEL: "main"}
    claims = _by_pipeline(api.list(CONFIG_MAPS, labels))
    sets = _by_pipeline(api.list(STATEFUL_SETS, labels))
    jobs = _by_pipeline(api.list(JOBS, labels))
    pods = _by_pipeline(api.list(PODS, {**labels, **_DRIVERS}))
    return [
        Observed(
            pipeline=pipeline,
            namespace=namespace,
            config_map=next(iter(claims.get(pipeline, [])), None),
            stateful_set=next(iter(sets.get(pipeline, [])), None),
            jobs=tuple(jobs.get(pipeline, [])),
            pods=tuple(pods.get(pipeline, [])),
        )
        for pipeline in sorted({*pods, *jobs, *sets, *claims})
    ]


def trouble(api: KubernetesApi, observed: Observed) -> str:
    """Return the cluster's newest reason why a driver does not start; empty if there is none."""
    name = troubled_object(observed)
    return "" if name is None else newest_words(warnings_about(api, name))


def troubles(api: KubernetesApi, found: Iterable[Observed]) -> dict[str, str]:
    """Return the reasons why drivers do not start, by pipeline; one call if there are any."""
    troubled = {seen.pipeline: name for seen in found if (name := _troubled(seen)) is not None}
    if not troubled:
        return {}
    about: dict[str, list[Document]] = defaultdict(list)
    for event in api.list(EVENTS, {}, {"type": "Warning"}):
        about[str(event["involvedObject"]["name"])].append(event)
    return {pipeline: newest_words(about[name]) for pipeline, name in troubled.items()}


def _troubled(observed: Observed) -> str | None:
    try:
        return troubled_object(observed)
    except TidemillError:
        # Its record is damaged, which the reader of the record reports.
        return None


def warnings_about(api: KubernetesApi, name: str) -> list[Document]:
    """Return the warning events about an object."""
    return api.list(EVENTS, {}, {"involvedObject.name": name, "type": "Warning"})


def _by_pipeline(documents: Iterable[Document]) -> dict[str, list[Document]]:
    found: dict[str, list[Document]] = defaultdict(list)
    for document in documents:
        found[slot_in(document)[0]].append(document)
    return found
