"""RBAC: roles are exactly as agreed, and only pods that use the Kubernetes API have a token."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.chart import (
    AIRFLOW,
    STREAMS,
    ChartError,
    Document,
    namespace_of,
    of_kind,
    pod_templates,
    render,
)

OBJECTS = frozenset({"get", "list", "watch", "create", "patch", "update", "delete"})
SPARK = frozenset({"get", "list", "watch", "create", "delete", "deletecollection"})

CONTROL_PLANE = {
    ("", "namespaces"): frozenset({"get"}),
    ("", "pods"): frozenset({"get", "list", "watch", "delete"}),
    ("", "pods/log"): frozenset({"get"}),
    ("", "events"): frozenset({"get", "list"}),
    ("", "configmaps"): OBJECTS,
    ("", "services"): OBJECTS,
    ("apps", "statefulsets"): OBJECTS,
    ("policy", "poddisruptionbudgets"): OBJECTS,
    ("batch", "jobs"): OBJECTS,
}
LOOKS = frozenset({"get", "list"})
# Rights of Airflow's API server, for the Streams page.
VIEW = {
    ("", "namespaces"): frozenset({"get"}),
    ("", "pods/log"): frozenset({"get"}),
    ("", "events"): frozenset({"list"}),
    ("", "pods"): LOOKS,
    ("", "configmaps"): LOOKS,
    ("apps", "statefulsets"): LOOKS,
    ("batch", "jobs"): LOOKS,
}
DRIVER = {("", "pods"): SPARK}
# Rights of the Job that gives both namespaces one volume. They exist only while the Job runs.
CLAIMS = {("", "persistentvolumeclaims"): frozenset({"get"})}
VOLUMES = {("", "persistentvolumes"): frozenset({"get", "create"})}


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
    roles = {name: rights(role) for name, role in of_kind(evaluation, "Role", STREAMS).items()}
    assert roles == {
        "tidemill-airflow": CONTROL_PLANE,
        "tidemill-api-server": VIEW,
        "tidemill-driver": DRIVER,
        "tidemill-volume": CLAIMS,
    }


def test_nobody_may_do_anything_where_airflow_is(evaluation: list[Document]) -> None:
    roles = {name: rights(role) for name, role in of_kind(evaluation, "Role", AIRFLOW).items()}
    assert roles == {"tidemill-volume": CLAIMS}
    assert of_kind(render("azure"), "Role", AIRFLOW) == {}


def test_only_the_job_that_shares_a_volume_has_rights_beyond_namespaces(evaluation: list[Document]) -> None:
    roles = of_kind(evaluation, "ClusterRole")
    assert {name: rights(role) for name, role in roles.items()} == {"tidemill-tidemill-volume": VOLUMES}
    (binding,) = of_kind(evaluation, "ClusterRoleBinding").values()
    # The account is in Airflow's namespace, where drivers cannot use it.
    account = {"kind": "ServiceAccount", "name": "tidemill-volume", "namespace": AIRFLOW}
    assert binding["subjects"] == [account]
    own = [each for each in evaluation if each["metadata"]["name"].endswith("-volume")]
    policies = {each["metadata"]["annotations"]["helm.sh/hook-delete-policy"] for each in own}
    assert policies == {"before-hook-creation,hook-succeeded"}
    for file in ("azure", "external-airflow"):
        assert of_kind(render(file), "ClusterRole") == of_kind(render(file), "ClusterRoleBinding") == {}


def test_each_role_is_bound_to_its_own_account_and_executors_to_none(evaluation: list[Document]) -> None:
    bound = {
        name: [(each["name"], each["namespace"]) for each in binding["subjects"]]
        for name, binding in of_kind(evaluation, "RoleBinding", STREAMS).items()
        if binding["roleRef"]["name"] == name
    }
    assert bound == {
        "tidemill-airflow": [("tidemill-airflow", AIRFLOW)],
        "tidemill-api-server": [("tidemill-api-server", AIRFLOW)],
        "tidemill-driver": [("tidemill-driver", STREAMS)],
        "tidemill-volume": [("tidemill-volume", AIRFLOW)],
    }


def test_streams_are_never_where_airflow_is() -> None:
    with pytest.raises(ChartError, match=r"streams\.namespace: tidemill is the namespace of Airflow"):
        render("evaluation", values={"streams": {"namespace": AIRFLOW}})
    # Without Airflow, the release may be in the streams' namespace itself; that one exists.
    documents = render("external-airflow", values={"streams": {"namespace": AIRFLOW}})
    assert {namespace_of(each) for each in documents} == {AIRFLOW}
    assert of_kind(documents, "Namespace") == {}


def test_one_place_says_where_streams_are() -> None:
    file = {"environment": {"file": {"kubernetes": {"namespace": "elsewhere"}}}}
    with pytest.raises(ChartError, match=r"give it as streams\.namespace"):
        render("evaluation", values=file)


def test_the_namespace_of_streams_takes_restricted_pods_only_and_outlives_the_release() -> None:
    (namespace,) = of_kind(render("evaluation"), "Namespace").values()
    assert namespace["metadata"]["name"] == STREAMS
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert namespace["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    # Helm would refuse to adopt a namespace that was created before, for example with Secrets.
    assert of_kind(render("azure"), "Namespace") == {}


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
    places = {name: namespace_of(account) for name, account in accounts.items()}
    assert places == {
        "tidemill-airflow": AIRFLOW,
        "tidemill-api-server": AIRFLOW,
        "tidemill-volume": AIRFLOW,
        "tidemill-driver": STREAMS,
        "tidemill-executor": STREAMS,
    }
    assert not any(account["automountServiceAccountToken"] for account in accounts.values())


def test_only_what_talks_to_the_kubernetes_api_gets_a_token(evaluation: list[Document]) -> None:
    asking = {
        template["metadata"]["labels"]["app.kubernetes.io/component"]
        for _, template in pod_templates(evaluation)
        if template["spec"]["automountServiceAccountToken"]
    }
    assert asking == {"api-server", "scheduler", "triggerer", "drain", "volume"}


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
        name: {mount["mountPath"] for mount in template["spec"]["containers"][0].get("volumeMounts", [])}
        for name, template in pod_templates(documents)
    }
    driver_things = {"/data", "/run/secrets/tidemill"}
    assert not folders["Deployment/tidemill-dag-processor"] & driver_things
    # Here the root is an object store that needs no key; the volume is for something else.
    assert not folders["Deployment/tidemill-api-server"] & driver_things
    assert driver_things < folders["StatefulSet/tidemill-scheduler"]
    assert driver_things < folders["StatefulSet/tidemill-triggerer"]


def api_server(documents: list[Document]) -> tuple[Document, dict[str, Document], dict[str, Document]]:
    """Return the API server's pod, its mounts by path and its volumes by name."""
    pod: Document = dict(pod_templates(documents))["Deployment/tidemill-api-server"]["spec"]
    mounts = {each["mountPath"]: each for each in pod["containers"][0]["volumeMounts"]}
    return pod, mounts, {each["name"]: each for each in pod["volumes"]}


def test_the_streams_page_looks_by_an_account_of_its_own_and_writes_to_no_volume(
    evaluation: list[Document],
) -> None:
    pod, mounts, volumes = api_server(evaluation)
    assert pod["serviceAccountName"] == "tidemill-api-server"
    assert mounts["/etc/tidemill/environment"]["readOnly"] is True
    assert mounts["/data"]["readOnly"] is True
    assert volumes[mounts["/data"]["name"]]["persistentVolumeClaim"] == {"claimName": "tidemill-data"}
    others = [{"claim": "models", "path": "/models"}, {"claim": "tidemill-data", "path": "/data"}]
    file = {"kubernetes": {"volumes": others}}
    _, mounts, _ = api_server(render("evaluation", values={"environment": {"file": file}}))
    assert "/models" not in mounts


def test_of_drivers_secrets_the_streams_page_gets_the_keys_of_the_store_alone() -> None:
    keys = {"access_key": "store-id", "secret_key": "store-secret"}
    file = {"root": "s3://bucket/lake", "storage": {"s3": keys}}
    values = {"environment": {"file": file}, "secrets": {"drivers": ["a", "b"]}}
    _, mounts, volumes = api_server(render("evaluation", values=values))
    assert "/data" not in mounts
    assert mounts["/run/secrets/tidemill"]["readOnly"] is True
    items = [{"key": name, "path": name} for name in keys.values()]
    # One of the two has them; the broker's password, in the same or in the other one, is no file here.
    assert volumes["secrets"]["projected"]["sources"] == [
        {"secret": {"name": name, "items": items, "optional": True}} for name in ("a", "b")
    ]
    _, mounts, _ = api_server(render("azure"))
    assert "/run/secrets/tidemill" not in mounts


def test_a_changed_environment_is_a_changed_pod_of_the_streams_page_and_of_nobody_else() -> None:
    changed = {"environment": {"file": {"protected": True}}}
    before, after = render("evaluation"), render("evaluation", values=changed)
    others = dict(pod_templates(after))
    differ = {name for name, template in pod_templates(before) if others[name] != template}
    assert differ == {"Deployment/tidemill-api-server"}


def test_without_the_streams_page_the_api_server_looks_at_nothing() -> None:
    documents = render("evaluation", values={"airflow": {"streamsPage": False}})
    assert "tidemill-api-server" not in of_kind(documents, "Role", STREAMS)
    assert "tidemill-api-server" not in of_kind(documents, "RoleBinding", STREAMS)
    pod, mounts, _ = api_server(documents)
    assert pod["automountServiceAccountToken"] is False
    assert set(mounts) == {"/tmp", "/home/tidemill"}


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
