"""The security rows of the faults, each looked up on the live release as a reviewer can by a command.

What needs no cluster is tested where it is made: pins and jars by checksum in
tests/unit/test_versions_agree.py and test_set_up.py, log lines that payloads cannot forge in
tests/unit/engine/test_log_lines.py, secrets in declarations and the storage root in
tests/unit/spec/test_secret_leak.py and test_hostile_paths.py, hostile parameters in
tests/airflow/test_dag_runs.py. Not every cluster enforces network policies: that they are there, and whom
they select, is looked at; a packet that they stop is not.
"""

from __future__ import annotations

import json

import pytest

from tests.support.cluster import Document, RefusedError, containers_of
from tests.support.inside_cluster import POD, USER
from tests.support.platform import WINDOWS, Platform
from tests.support.release import NAME, PLATFORM
from tidemill.airflow_names import STREAMS_DAG_ID
from tidemill.names import kubernetes_name

DRIVER = f"{kubernetes_name(WINDOWS)}-0"

EVERY_VERB = {"get", "list", "watch", "create", "update", "patch", "delete"}
LOOKS = {"get", "list"}
OBJECTS = ("configmaps", "services", "statefulsets", "poddisruptionbudgets", "jobs")

# All rights of the accounts in the streams' namespace. They have none elsewhere, not even in Airflow's.
MAY = {
    f"{NAME}-airflow": {
        "namespaces": {"get"},
        "pods": {"get", "list", "watch", "delete"},
        "pods/log": {"get"},
        "events": {"get", "list"},
        **dict.fromkeys(OBJECTS, EVERY_VERB),
    },
    # These rights are for the Streams page.
    f"{NAME}-api-server": {
        "namespaces": {"get"},
        "pods/log": {"get"},
        "events": {"list"},
        **dict.fromkeys(("pods", "configmaps", "statefulsets", "jobs"), LOOKS),
    },
    f"{NAME}-driver": {"pods": {"get", "list", "watch", "create", "delete", "deletecollection"}},
    f"{NAME}-executor": {},
}

# Requests about itself that every account of a cluster may make.
ABOUT_ONESELF = {"selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"}

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"

# Accounts of pods where Airflow is.
OF_AIRFLOW = (f"{NAME}-airflow", f"{NAME}-api-server")

# Speaks Spark's protocol to a driver without proving anything; prints the type of the answer, or `closed`.
# Frame: its length, type 3 (a request), an id, the length of the body, the body.
STRANGER = """
import socket, struct, sys
body = bytes(16)
request = struct.pack(">bqi", 3, 1, len(body)) + body
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as connection:
    connection.sendall(struct.pack(">q", len(request) + 8) + request)
    try:
        answer = connection.recv(9)
    except ConnectionResetError:
        answer = b""
print(answer[8] if len(answer) > 8 else "closed")
"""
ANSWERED = "4"

REACHED = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)"


def rules(platform: Platform, account: str, namespace: str) -> dict[str, set[str]]:
    """Verbs by resource that an account has in a namespace."""
    place = platform.cluster if account in OF_AIRFLOW else platform.streams
    user = f"--as=system:serviceaccount:{place.namespace}:{account}"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    answer = platform.cluster(
        "create",
        "--filename=-",
        "--output=json",
        # A client that reads schemas first needs more rights than these accounts have.
        "--validate=false",
        user,
        "--as-group=system:serviceaccounts",
        stdin=json.dumps(review),
    )
    found: dict[str, set[str]] = {}
    for rule in json.loads(answer)["status"]["resourceRules"]:
        for resource in set(rule["resources"]) - ABOUT_ONESELF:
            found.setdefault(resource, set()).update(rule["verbs"])
    return found


def all_pods(platform: Platform) -> list[Document]:
    """Return pods of the chart, drivers and executors."""
    pods = [*platform.cluster.pods(PLATFORM), *platform.streams.pods(PLATFORM)]
    components = {pod["metadata"]["labels"].get("app.kubernetes.io/component") for pod in pods}
    assert {"scheduler", "driver", "executor"} <= components
    return pods


def test_every_pod_fits_pod_security_restricted(platform: Platform) -> None:
    level = "pod-security.kubernetes.io/enforce=restricted"
    for place in (platform.cluster, platform.streams):
        done = place.attempt("label", "namespace", place.namespace, level, "--dry-run=server", "--overwrite")
        assert done.returncode == 0
        # The API server warns of each pod that would not be let in.
        assert "Warning" not in done.stderr


@pytest.mark.parametrize("account", MAY)
def test_an_account_may_do_what_its_role_says_and_nothing_elsewhere(platform: Platform, account: str) -> None:
    assert rules(platform, account, platform.streams.namespace) == MAY[account]
    assert rules(platform, account, platform.cluster.namespace) == {}
    assert rules(platform, account, "default") == {}


def test_only_who_talks_to_the_api_server_has_a_token(platform: Platform) -> None:
    holders = set()
    for pod in all_pods(platform):
        for container in containers_of(pod):
            if any(mount["mountPath"] == TOKEN for mount in container.get("volumeMounts", [])):
                holders.add(pod["metadata"]["labels"]["app.kubernetes.io/component"])
    assert holders == {"api-server", "scheduler", "triggerer", "driver"}
    executor = platform.executors(WINDOWS)[0]["metadata"]["name"]
    with pytest.raises(RefusedError):
        platform.streams("exec", executor, "--", "ls", TOKEN)


def test_every_container_is_nobody_and_cannot_write_to_its_image(platform: Platform) -> None:
    for pod in all_pods(platform):
        security = pod["spec"]["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, USER)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers_of(pod):
            own = container["securityContext"]
            assert (own["allowPrivilegeEscalation"], own["readOnlyRootFilesystem"]) == (False, True)
            assert own["capabilities"] == {"drop": ["ALL"]}


def test_a_driver_and_an_executor_are_nobody_in_fact(platform: Platform) -> None:
    for pod in (DRIVER, platform.executors(WINDOWS)[0]["metadata"]["name"]):
        assert platform.streams("exec", pod, "--", "id", "-u").strip() == str(USER)
        with pytest.raises(RefusedError, match="Read-only file system"):
            platform.streams("exec", pod, "--", "touch", "/opt/tidemill/project/conf/new.yaml")


def test_every_image_has_a_version(platform: Platform) -> None:
    for pod in all_pods(platform):
        for container in containers_of(pod):
            tag = container["image"].rpartition("/")[2].partition(":")[2]
            assert tag not in ("", "latest")


def test_nothing_may_reach_a_pod_or_leave_it_that_no_policy_names(platform: Platform) -> None:
    for place in (platform.cluster, platform.streams):
        policies = [
            policy["spec"]
            for policy in place.list("networkpolicies")
            if not policy["metadata"]["name"].startswith(POD)
        ]
        denying = [policy["podSelector"] for policy in policies if allowed_ports(policy) == {53}]
        for pod in place.pods(PLATFORM):
            labels = pod["metadata"]["labels"].items()
            selected = [each.get("matchLabels", {}).items() <= labels for each in denying]
            assert any(selected), pod["metadata"]["name"]


def allowed_ports(policy: Document) -> set[int | None] | None:
    """Ports that a policy for both directions lets packets out to; None if it lets any in, or says less."""
    if set(policy["policyTypes"]) != {"Ingress", "Egress"} or policy.get("ingress"):
        return None
    return {port.get("port") for rule in policy.get("egress", []) for port in rule.get("ports", [{}])}


def test_executors_are_told_to_prove_themselves_and_to_encrypt(platform: Platform) -> None:
    (executor, *_) = platform.executors(WINDOWS)
    options = {
        item.get("value") for container in containers_of(executor) for item in container.get("env", [])
    }
    assert {
        "-Dspark.authenticate=true",
        "-Dspark.network.crypto.enabled=true",
        "-Dspark.network.crypto.cipher=AES/GCM/NoPadding",
    } <= options


def test_a_stranger_gets_no_answer_from_a_driver(platform: Platform) -> None:
    pod = platform.until_healthy(WINDOWS)
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    for port in (ports["driver"], ports["block-manager"]):
        where = (pod["status"]["podIP"], str(port))
        answer = platform.cluster("exec", POD, "--", "python", "-c", STRANGER, *where).strip()
        assert answer != ANSWERED


def test_sparks_own_page_answers_nobody_who_comes_to_the_pod(platform: Platform) -> None:
    # It is served, on the loopback interface: test_queries.py forwards it.
    pod = platform.until_healthy(WINDOWS)
    with pytest.raises(RefusedError, match="ConnectionRefused"):
        platform.cluster("exec", POD, "--", "python", "-c", REACHED, pod["status"]["podIP"], "4040")


def test_no_secret_stands_anywhere_but_in_secrets(platform: Platform) -> None:
    secrets = secret_values(platform)
    assert len(secrets) >= 7
    for place, text in dumps(platform).items():
        assert [name for name, value in secrets.items() if value in text] == [], place
    patterns = "\n".join(secrets.values())
    root = platform.root
    found = platform.cluster.attempt("exec", "--stdin", POD, "--", "grep", "-rlFf", "-", root, stdin=patterns)
    assert (found.stdout, found.returncode) == ("", 1)


def secret_values(platform: Platform) -> dict[str, str]:
    """Return every value that the release keeps secret."""
    found = {}
    for place in (platform.cluster, platform.streams):
        # Helm's own record of the release is a Secret that holds the others.
        opaque = [each["metadata"]["name"] for each in place.list("secrets") if each["type"] == "Opaque"]
        found |= {f"{name}/{key}": text for name in opaque for key, text in place.secret(name).items()}
    return found


def dumps(platform: Platform) -> dict[str, str]:
    """Return all texts that a user without access to Secrets may see."""
    kinds = "pods,configmaps,statefulsets,deployments,jobs,services,events,poddisruptionbudgets"
    texts = {}
    for place in (platform.cluster, platform.streams):
        texts[f"objects of {place.namespace}"] = place("get", kinds, "--output=yaml")
        for pod in place.pods():
            name = pod["metadata"]["name"]
            texts[f"log of {name}"] = place.logs(name)
    tasks = platform.airflow.call("GET", "/dags/~/dagRuns/~/taskInstances?limit=1000")["task_instances"]
    texts["rendered fields"] = json.dumps(tasks)
    for task in tasks:
        if task["dag_id"] != STREAMS_DAG_ID and task["state"] == "success":
            place = (task["dag_id"], task["dag_run_id"], task["task_id"])
            texts[f"task log {place}"] = platform.airflow.log_of(*place)
            texts[f"result {place}"] = json.dumps(platform.airflow.result(*place))
    return texts
