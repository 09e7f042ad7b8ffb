"""An upgrade, a rollback and an uninstall do not change the objects that streams need."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.support.chart import (
    AIRFLOW,
    STREAMS,
    Document,
    containers,
    namespace_of,
    of_kind,
    pod_templates,
    render,
)
from tidemill.airflow_names import DRIVER_POOL, DRIVER_POOL_VARIABLE

OTHER_TAGS = {"images": {"spark": {"tag": "9"}, "airflow": {"tag": "9"}, "broker": {"tag": "9"}}}

Identity = tuple[str, str, str]

# Deleting or replacing one of them stops streams or loses data.
FOUNDATIONS = {
    (AIRFLOW, "Namespace", STREAMS),
    (STREAMS, "ConfigMap", "tidemill-streams"),
    (STREAMS, "PersistentVolumeClaim", "tidemill-data"),
    (AIRFLOW, "PersistentVolumeClaim", "tidemill-data"),
    (AIRFLOW, "PersistentVolumeClaim", "tidemill-broker"),
    (STREAMS, "ServiceAccount", "tidemill-driver"),
    (STREAMS, "ServiceAccount", "tidemill-executor"),
    (STREAMS, "Role", "tidemill-driver"),
    (STREAMS, "RoleBinding", "tidemill-driver"),
    (AIRFLOW, "Service", "tidemill-broker"),
    # A driver that runs makes executors of the image that it was started with.
    (AIRFLOW, "ValidatingAdmissionPolicy", "tidemill-tidemill-executors"),
    (AIRFLOW, "ValidatingAdmissionPolicy", "tidemill-tidemill-removals"),
}


@pytest.fixture(scope="module")
def before() -> list[Document]:
    return render("evaluation")


@pytest.fixture(scope="module")
def after() -> list[Document]:
    return render("evaluation", values=OTHER_TAGS)


def identities(documents: list[Document]) -> dict[Identity, Document]:
    return {(namespace_of(each), each["kind"], each["metadata"]["name"]): each for each in documents}


def test_what_streams_stand_on_is_equal_with_other_images(
    before: list[Document], after: list[Document]
) -> None:
    old, new = identities(before), identities(after)
    assert set(old) >= FOUNDATIONS
    assert {key: old[key] for key in FOUNDATIONS} == {key: new[key] for key in FOUNDATIONS}


def test_only_jobs_get_other_names_with_other_images(before: list[Document], after: list[Document]) -> None:
    changed = set(identities(before)) ^ set(identities(after))
    assert {(kind, name.rpartition("-")[0]) for _, kind, name in changed} == {
        ("Job", "tidemill-migrate"),
        ("Job", "tidemill-topics"),
    }


def test_a_job_that_changes_gets_another_name() -> None:
    first = of_kind(render("evaluation"), "Job")
    values = {
        "airflow": {"migrate": {"resources": {"limits": {"memory": "3Gi"}}}, "admin": {"username": "me"}},
        "evaluation": {"broker": {"topics": {"more": 2}}},
    }
    second = of_kind(render("evaluation", values=values), "Job")
    assert set(first) & set(second) == {"tidemill-drain", "tidemill-volume"}
    assert set(of_kind(render("evaluation"), "Job")) == set(first)


def test_parts_that_cannot_be_changed_on_a_cluster_do_not_change(
    before: list[Document], after: list[Document]
) -> None:
    assert frozen(before) == frozen(after)


def frozen(documents: list[Document]) -> dict[str, Any]:
    """Return selectors of all workloads, and other immutable parts of StatefulSets."""
    return {
        f"{each['kind']}/{each['metadata']['name']}": (
            each["spec"]["selector"],
            each["spec"].get("serviceName"),
            each["spec"].get("podManagementPolicy"),
            each["spec"].get("volumeClaimTemplates"),
        )
        for each in documents
        if each["kind"] in ("StatefulSet", "Deployment")
    }


def test_an_uninstall_keeps_claims_and_the_secrets_that_open_them(before: list[Document]) -> None:
    kept = [each for each in before if each["kind"] in ("PersistentVolumeClaim", "Secret", "Namespace")]
    assert len(kept) == 8
    for document in kept:
        assert document["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_an_uninstall_leaves_the_namespace_alone_where_nothing_is_to_be_kept() -> None:
    documents = render("evaluation", values={"data": {"persistence": {"keep": False}}})
    kept = [each["kind"] for each in documents if "annotations" in each["metadata"] and
            "helm.sh/resource-policy" in each["metadata"]["annotations"]]  # fmt: skip
    # The release must not delete objects that others have created in the namespace.
    assert kept == ["Namespace"]


def test_streams_are_drained_before_anything_is_removed(before: list[Document]) -> None:
    job = of_kind(before, "Job")["tidemill-drain"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"][-3:] == [
        STREAMS,
        "tidemill-streams",
        "240",
    ]


def test_a_migration_makes_a_user_once_and_leaves_the_log_of_a_failure(before: list[Document]) -> None:
    (migration,) = (
        template["spec"]
        for name, template in pod_templates(before)
        if name.startswith("Job/tidemill-migrate-")
    )
    assert migration["restartPolicy"] == "Never"
    steps = migration["containers"][0]["args"][-1]
    (step,) = [each for each in steps.replace("\\\n", " ").splitlines() if "users create" in each]
    assert step.split()[3:8] == ["once", "first-user", "airflow", "users", "create"]


def test_a_migration_makes_the_pool_that_the_dags_are_told_of(before: list[Document]) -> None:
    (migration,) = (
        template for name, template in pod_templates(before) if name.startswith("Job/tidemill-migrate-")
    )
    (container,) = containers(migration)
    steps = container["args"][-1].splitlines()
    (made,) = [each for each, step in enumerate(steps) if "pools set" in step]
    command = shlex.split(steps[made])
    assert command[:5] == ["airflow", "pools", "set", DRIVER_POOL, "$DRIVER_SLOTS"]
    assert command[-1] == "--include-deferred"
    # A part that has seen the mark finds the pool.
    assert "mark" in steps[-1]
    assert made < len(steps) - 1
    slots = {each["name"]: each.get("value") for each in container["env"]}["DRIVER_SLOTS"]
    assert slots == "2"
    (settings,) = [each for each in before if each["metadata"]["name"] == "tidemill-airflow-settings"]
    assert settings["data"][DRIVER_POOL_VARIABLE] == DRIVER_POOL


def test_all_waiting_parts_wait_for_what_the_migration_writes(before: list[Document]) -> None:
    (migration,) = (
        template for name, template in pod_templates(before) if name.startswith("Job/tidemill-migrate-")
    )
    (key,) = [
        each["value"]
        for each in containers(migration)[0]["env"]
        if each["name"] == "MIGRATION_KEY"
    ]  # fmt: skip
    awaited = {
        container["args"][-1]
        for _, template in pod_templates(before)
        for container in containers(template)
        if container["name"] == "wait-for-migration"
    }
    assert awaited == {key}
