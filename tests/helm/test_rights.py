"""Who may do what: roles exactly as agreed, tokens only where one talks to the Kubernetes API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.chart import Document, of_kind, pod_templates, render

OBJECTS = frozenset({"get", "list", "watch", "create", "patch", "update", "delete"})
SPARK = frozenset({"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"})

CONTROL_PLANE = {
    ("", "pods"): frozenset({"get", "list", "watch", "delete"}),
    ("", "pods/log"): frozenset({"get"}),
    ("", "events"): frozenset({"get", "list"}),
    ("", "configmaps"): OBJECTS,
    ("", "services"): OBJECTS,
    ("apps", "statefulsets"): OBJECTS,
    ("policy", "poddisruptionbudgets"): OBJECTS,
    ("batch", "jobs"): OBJECTS,
}
DRIVER = {("", kind): SPARK for kind in ("pods", "configmaps", "services", "persistentvolumeclaims")}


@pytest.fixture(scope="module")
def evaluation() -> list[Document]:
    return render("evaluation")


def rights(role: Document) -> dict[tuple[str, str], frozenset[str]]:
    return {
        (group, kind): frozenset(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for kind in rule["resources"]
    }


def test_the_roles_are_exactly_those_agreed(evaluation: list[Document]) -> None:
    roles = {name: rights(role) for name, role in of_kind(evaluation, "Role").items()}
    assert roles == {"tidemill-airflow": CONTROL_PLANE, "tidemill-driver": DRIVER}


def test_nothing_is_allowed_beyond_the_namespace(evaluation: list[Document]) -> None:
    assert of_kind(evaluation, "ClusterRole") == of_kind(evaluation, "ClusterRoleBinding") == {}


def test_each_role_is_bound_to_its_own_account_and_executors_to_none(evaluation: list[Document]) -> None:
    bound = {
        name: (binding["roleRef"]["name"], [subject["name"] for subject in binding["subjects"]])
        for name, binding in of_kind(evaluation, "RoleBinding").items()
    }
    assert bound == {
        "tidemill-airflow": ("tidemill-airflow", ["tidemill-airflow"]),
        "tidemill-driver": ("tidemill-driver", ["tidemill-driver"]),
    }


def test_the_accounts_of_another_airflow_get_the_control_planes_role() -> None:
    bindings = of_kind(render("external-airflow"), "RoleBinding")
    subjects = [(each["namespace"], each["name"]) for each in bindings["tidemill-airflow"]["subjects"]]
    assert subjects[1:] == [
        ("airflow", "airflow-scheduler"),
        ("airflow", "airflow-worker"),
        ("airflow", "airflow-triggerer"),
    ]


def test_no_account_gives_its_token_to_a_pod_that_does_not_ask(evaluation: list[Document]) -> None:
    accounts = of_kind(evaluation, "ServiceAccount")
    assert set(accounts) == {"tidemill-airflow", "tidemill-driver", "tidemill-executor"}
    assert not any(account["automountServiceAccountToken"] for account in accounts.values())


def test_only_what_talks_to_the_kubernetes_api_gets_a_token(evaluation: list[Document]) -> None:
    asking = {
        template["metadata"]["labels"]["app.kubernetes.io/component"]
        for _, template in pod_templates(evaluation)
        if template["spec"]["automountServiceAccountToken"]
    }
    assert asking == {"scheduler", "triggerer", "drain"}


def test_only_who_signs_for_tasks_has_the_key(evaluation: list[Document]) -> None:
    holders = {
        template["metadata"]["labels"]["app.kubernetes.io/component"]
        for _, template in pod_templates(evaluation)
        if "AIRFLOW__API_AUTH__JWT_SECRET" in variables(template)
    }
    assert holders == {"api-server", "scheduler", "migrate"}


def test_what_reads_dag_files_has_neither_data_nor_secrets_of_drivers() -> None:
    documents = render("azure", values={"data": {"persistence": {"enabled": True}}})
    folders = {
        name: {mount["mountPath"] for mount in template["spec"]["containers"][0]["volumeMounts"]}
        for name, template in pod_templates(documents)
    }
    driver_things = {"/data", "/run/secrets/tidemill"}
    assert not folders["Deployment/tidemill-dag-processor"] & driver_things
    assert not folders["Deployment/tidemill-api-server"] & driver_things
    assert driver_things < folders["StatefulSet/tidemill-scheduler"]
    assert driver_things < folders["StatefulSet/tidemill-triggerer"]


def test_further_secrets_reach_all_parts_but_the_one_that_reads_dag_files() -> None:
    documents = render("evaluation", values={"airflow": {"envFromSecrets": ["logs"]}})
    holders = {
        template["metadata"]["labels"]["app.kubernetes.io/component"]
        for _, template in pod_templates(documents)
        for container in template["spec"]["containers"]
        if {"secretRef": {"name": "logs"}} in container.get("envFrom", [])
    }
    assert holders == {"api-server", "scheduler", "triggerer"}


def variables(template: Document) -> dict[str, Any]:
    (container,) = template["spec"]["containers"]
    return {each["name"]: each for each in container.get("env", [])}
