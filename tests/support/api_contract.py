"""The API server contract that the runtime needs: the in-memory fake and a real server must both pass."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.eventually import eventually
from tidemill.control.kubernetes.api import (
    CONFIG_MAPS,
    JOBS,
    PODS,
    STATEFUL_SETS,
    ConflictError,
    Document,
    KubernetesApi,
    insist,
)
from tidemill.control.kubernetes.pod_facts import JOB_NAME_LABEL
from tidemill.spec.pod import container_security, pod_security


class ApiContract:
    """Tests; a subclass gives the fixture `api`: an empty namespace."""

    def take_turn(self, api: KubernetesApi) -> None:
        """Give controllers their turn, where they do not take it by themselves."""

    def jobs_pods(self, api: KubernetesApi, name: str) -> list[Document]:
        """Return pods of a Job, after its controller's turn."""
        self.take_turn(api)
        return api.list(PODS, {JOB_NAME_LABEL: name})

    def test_what_is_not_there_is_none(self, api: KubernetesApi) -> None:
        assert api.get(CONFIG_MAPS, "missing") is None
        assert api.patch(CONFIG_MAPS, "missing", {"data": {"a": "b"}}) is None
        assert api.delete(CONFIG_MAPS, "missing", {}) is False
        assert api.list(CONFIG_MAPS, {"tidemill/test": "nothing-has-it"}) == []

    def test_the_namespace_tells_who_it_is(self, api: KubernetesApi) -> None:
        uid = api.namespace()["metadata"]["uid"]
        assert uid
        assert api.namespace()["metadata"]["uid"] == uid

    def test_a_name_is_created_once(self, api: KubernetesApi) -> None:
        api.create(CONFIG_MAPS, config_map("once"))
        with pytest.raises(ConflictError):
            api.create(CONFIG_MAPS, config_map("once"))

    def test_a_check_creates_nothing_and_says_what_a_creation_would(self, api: KubernetesApi) -> None:
        api.check(CONFIG_MAPS, config_map("checked"))
        assert api.get(CONFIG_MAPS, "checked") is None
        api.create(CONFIG_MAPS, config_map("checked"))
        with pytest.raises(ConflictError):
            api.check(CONFIG_MAPS, config_map("checked"))

    def test_of_two_replacements_at_one_version_the_first_wins(self, api: KubernetesApi) -> None:
        seen = api.create(CONFIG_MAPS, config_map("replaced"))
        api.replace(CONFIG_MAPS, {**seen, "data": {"by": "first"}})
        with pytest.raises(ConflictError):
            api.replace(CONFIG_MAPS, {**seen, "data": {"by": "second"}})
        assert data_of(api, "replaced") == {"by": "first"}

    def test_a_replacement_of_what_was_deleted_is_a_conflict(self, api: KubernetesApi) -> None:
        seen = api.create(CONFIG_MAPS, config_map("deleted"))
        api.delete(CONFIG_MAPS, "deleted", {})
        with pytest.raises(ConflictError):
            api.replace(CONFIG_MAPS, seen)

    def test_a_replacement_leaves_nothing_of_the_former_annotations(self, api: KubernetesApi) -> None:
        seen = api.create(CONFIG_MAPS, config_map("noted", annotations={"tidemill/a": "1"}))
        new = config_map("noted", annotations={"tidemill/b": "2"})
        new["metadata"]["resourceVersion"] = seen["metadata"]["resourceVersion"]
        api.replace(CONFIG_MAPS, new)
        assert api.get(CONFIG_MAPS, "noted")["metadata"]["annotations"] == {"tidemill/b": "2"}  # type: ignore[index]

    def test_a_replacement_leaves_nothing_of_the_former_template(self, api: KubernetesApi) -> None:
        first = api.create(STATEFUL_SETS, stateful_set("anew", replicas=0))
        api.patch(STATEFUL_SETS, "anew", template_annotations({"tidemill/by-hand": "1"}))

        def replace() -> bool:
            there = api.get(STATEFUL_SETS, "anew")
            assert there is not None
            new = stateful_set("anew", replicas=0, note="new")
            new["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
            return api.replace(STATEFUL_SETS, new)["metadata"]["uid"] == first["metadata"]["uid"]

        # The object's controller writes its status at the same time.
        assert insist(replace)
        found = api.get(STATEFUL_SETS, "anew")
        assert found is not None
        assert found["spec"]["template"]["metadata"]["annotations"] == {"tidemill/note": "new"}

    def test_a_patch_at_an_old_version_is_a_conflict(self, api: KubernetesApi) -> None:
        seen = api.create(CONFIG_MAPS, config_map("patched"))
        at = {"metadata": {"resourceVersion": seen["metadata"]["resourceVersion"]}}
        api.patch(CONFIG_MAPS, "patched", {**at, "data": {"by": "first"}})
        with pytest.raises(ConflictError):
            api.patch(CONFIG_MAPS, "patched", {**at, "data": {"by": "second"}})
        assert data_of(api, "patched") == {"by": "first"}

    def test_a_patch_adds_and_keeps(self, api: KubernetesApi) -> None:
        api.create(CONFIG_MAPS, {**config_map("added"), "data": {"a": "1"}})
        api.patch(CONFIG_MAPS, "added", {"data": {"b": "2"}})
        assert data_of(api, "added") == {"a": "1", "b": "2"}

    def test_apply_creates_and_then_changes(self, api: KubernetesApi) -> None:
        first = api.apply(STATEFUL_SETS, stateful_set("applied", replicas=0))
        second = api.apply(STATEFUL_SETS, stateful_set("applied", replicas=0, note="new"))
        assert second["metadata"]["uid"] == first["metadata"]["uid"]
        found = api.get(STATEFUL_SETS, "applied")
        assert found is not None
        assert found["spec"]["template"]["metadata"]["annotations"] == {"tidemill/note": "new"}

    def test_apply_takes_back_what_somebody_else_has_changed(self, api: KubernetesApi) -> None:
        api.apply(STATEFUL_SETS, stateful_set("scaled", replicas=0))
        api.patch(STATEFUL_SETS, "scaled", {"spec": {"replicas": 2}})
        api.apply(STATEFUL_SETS, stateful_set("scaled", replicas=0))
        found = api.get(STATEFUL_SETS, "scaled")
        assert found is not None
        assert found["spec"]["replicas"] == 0

    def test_a_deletion_meant_for_another_object_of_the_name_is_a_conflict(self, api: KubernetesApi) -> None:
        api.create(CONFIG_MAPS, config_map("again"))
        other = "00000000-0000-0000-0000-000000000000"
        with pytest.raises(ConflictError):
            api.delete(CONFIG_MAPS, "again", {"preconditions": {"uid": other}})
        assert api.get(CONFIG_MAPS, "again") is not None

    def test_a_deletion_meant_for_an_older_version_is_a_conflict(self, api: KubernetesApi) -> None:
        seen = api.create(CONFIG_MAPS, config_map("meanwhile"))
        api.patch(CONFIG_MAPS, "meanwhile", {"data": {"by": "first"}})
        version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
        with pytest.raises(ConflictError):
            api.delete(CONFIG_MAPS, "meanwhile", {"preconditions": version})
        assert data_of(api, "meanwhile") == {"by": "first"}

    def test_a_suspended_job_makes_no_pod_until_it_is_let_run(self, api: KubernetesApi) -> None:
        api.create(JOBS, suspended_job("kept"))

        def is_seen() -> bool:
            self.take_turn(api)
            job = api.get(JOBS, "kept") or {}
            conditions = job.get("status", {}).get("conditions") or []
            return [each["type"] for each in conditions] == ["Suspended"]

        eventually(is_seen, "its controller has seen the Job", 30, poll_seconds=0.2)
        assert self.jobs_pods(api, "kept") == []
        api.patch(JOBS, "kept", {"spec": {"suspend": False}})
        eventually(lambda: self.jobs_pods(api, "kept"), "the Job makes its pod", 30, poll_seconds=0.2)

    def test_labels_select(self, api: KubernetesApi) -> None:
        api.create(CONFIG_MAPS, config_map("a", labels={"tidemill/pipeline": "a_b", "tidemill/slot": "main"}))
        api.create(CONFIG_MAPS, config_map("b", labels={"tidemill/pipeline": "b", "tidemill/slot": "main"}))
        found = api.list(CONFIG_MAPS, {"tidemill/slot": "main", "tidemill/pipeline": "a_b"})
        assert [each["metadata"]["name"] for each in found] == ["a"]


def config_map(name: str, **metadata: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def stateful_set(name: str, replicas: int, note: str = "first") -> Document:
    labels = {"tidemill/test": name}
    pod = {"containers": [{"name": "driver", "image": "docker.io/library/debian:bookworm-slim"}]}
    template = {"metadata": {"labels": labels, "annotations": {"tidemill/note": note}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def template_annotations(annotations: dict[str, str]) -> Document:
    return {"spec": {"template": {"metadata": {"annotations": annotations}}}}


def suspended_job(name: str) -> Document:
    container = {
        "name": "driver",
        "image": "docker.io/library/debian:bookworm-slim",
        "command": ["true"],
        "securityContext": container_security(),
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "securityContext": pod_security(),
        "containers": [container],
    }
    template = {"metadata": {"labels": {"tidemill/test": name}}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"suspend": True, "backoffLimit": 0, "template": template},
    }


def data_of(api: KubernetesApi, name: str) -> Any:
    found = api.get(CONFIG_MAPS, name)
    return None if found is None else found.get("data")
