"""The client against an API server that says no, says nonsense, or says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.scripted_api_server import LOST, ScriptedApiServer, kubeconfig, scripted_api_server
from tidemill.control.kubernetes import cluster_access
from tidemill.control.kubernetes.api import CONFIG_MAPS, PODS, ConflictError
from tidemill.control.kubernetes.client import LONGEST_REASON, KubernetesClient
from tidemill.errors import SpecError, TidemillError, UnavailableError


@pytest.fixture
def server() -> Iterator[ScriptedApiServer]:
    with scripted_api_server() as server:
        yield server


@pytest.fixture
def client(server: ScriptedApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesClient:
    return client_of(server.address, tmp_path, monkeypatch)


def client_of(address: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesClient:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(folder, address)))
    return KubernetesClient("plant")


def test_the_namespace_is_asked_for_by_its_own_address(
    client: KubernetesClient, server: ScriptedApiServer
) -> None:
    server.answers = [(200, {"metadata": {"uid": "u-1"}}), (404, {"message": "not found"})]
    assert client.namespace()["metadata"]["uid"] == "u-1"
    assert server.asked[0][:2] == ("GET", "/api/v1/namespaces/plant")
    with pytest.raises(SpecError) as caught:
        client.namespace()
    assert (caught.value.error_id, caught.value.facts["namespace"]) == ("TIDE-K8S-012", "plant")


@pytest.mark.parametrize(
    ("status", "reason", "error_id"),
    [
        (403, 'admission webhook "validate.kyverno.svc" denied the request: no latest', "TIDE-K8S-011"),
        (400, 'admission webhook "policy.example.com" denied the request', "TIDE-K8S-011"),
        (
            500,
            'Internal error occurred: failed calling webhook "policy.example.com": timeout',
            "TIDE-K8S-011",
        ),
        (
            422,
            "ValidatingAdmissionPolicy 'images' with binding 'b' denied request: image",
            "TIDE-K8S-011",
        ),
        (403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest"', "TIDE-K8S-011"),
        (403, 'configmaps "a" is forbidden: exceeded quota: plant, requested: configmaps=1', "TIDE-K8S-011"),
        (403, 'configmaps is forbidden: User "u" cannot create resource "configmaps"', "TIDE-K8S-002"),
    ],
)
def test_a_quota_or_an_admission_rule_is_told_from_a_missing_role(
    client: KubernetesClient, server: ScriptedApiServer, status: int, reason: str, error_id: str
) -> None:
    server.answers = [(status, {"message": reason})]
    with pytest.raises(UnavailableError) as caught:
        client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (caught.value.error_id, caught.value.facts["reason"]) == (error_id, reason)


@pytest.mark.parametrize(
    ("status", "kind", "error_id"),
    [
        (401, UnavailableError, "TIDE-K8S-002"),
        (403, UnavailableError, "TIDE-K8S-002"),
        (409, ConflictError, "TIDE-K8S-003"),
        (422, SpecError, "TIDE-K8S-004"),
        (400, SpecError, "TIDE-K8S-004"),
        (408, UnavailableError, "TIDE-K8S-001"),
        (429, UnavailableError, "TIDE-K8S-001"),
        (500, UnavailableError, "TIDE-K8S-001"),
        (503, UnavailableError, "TIDE-K8S-001"),
    ],
)
def test_a_no_says_what_to_do(
    client: KubernetesClient,
    server: ScriptedApiServer,
    status: int,
    kind: type[TidemillError],
    error_id: str,
) -> None:
    server.answers = [(status, {"message": "as the test\nwants " + "x" * 5000})]
    with pytest.raises(kind) as caught:
        client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert caught.value.error_id == error_id
    if "reason" in caught.value.facts:
        assert "\n" not in str(caught.value.facts["reason"])
        assert len(str(caught.value.facts["reason"])) <= LONGEST_REASON
    assert "not-a-secret" not in str(caught.value)


def test_a_refusal_that_is_no_json_is_told_as_it_is(
    client: KubernetesClient, server: ScriptedApiServer
) -> None:
    server.answers = [(403, "<html>a proxy\nsays no</html>")]
    with pytest.raises(UnavailableError) as caught:
        client.get(PODS, "a")
    assert caught.value.facts["reason"] == "<html>a proxy says no</html>"


def test_nobody_at_the_address_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No process listens on port 1.
    client = client_of("http://127.0.0.1:1", tmp_path, monkeypatch)
    with pytest.raises(UnavailableError) as caught:
        client.get(PODS, "a")
    assert caught.value.error_id == "TIDE-K8S-001"


def test_a_request_whose_answer_was_lost_is_not_sent_again(
    client: KubernetesClient, server: ScriptedApiServer
) -> None:
    server.answers = [(LOST, ""), (409, {"message": "the first one was stored"})]
    with pytest.raises(UnavailableError) as caught:
        client.replace(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert caught.value.error_id == "TIDE-K8S-001"
    assert len(server.asked) == 1


def test_no_way_to_a_cluster_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(UnavailableError) as caught:
        KubernetesClient("plant")
    assert caught.value.error_id == "TIDE-K8S-007"


@pytest.mark.parametrize("connection", [None, "plant"])
def test_outside_of_airflow_a_connection_is_no_way_and_kubeconfig_is(
    server: ScriptedApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connection: str | None
) -> None:
    # Tests of Airflow's own processes may have run in this one.
    monkeypatch.setattr(cluster_access, "_connections", None)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(UnavailableError) as caught:
        KubernetesClient("plant", connection)
    assert caught.value.error_id == "TIDE-K8S-007"
    assert caught.value.facts.get("connection") == connection
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, server.address)))
    server.answers = [(404, {})]
    assert KubernetesClient("plant", connection).get(PODS, "a") is None


def test_a_log_is_asked_for_with_moments_and_from_a_second_on(
    client: KubernetesClient, server: ScriptedApiServer
) -> None:
    server.answers = [(200, "2026-01-01T00:00:00.5Z one\n"), (400, {"message": "no container yet"})]
    since = datetime(2026, 1, 1, 3, 0, 0, 900_000, tzinfo=timezone(timedelta(hours=2)))
    assert client.log("a", "driver", 5, since=since) == "2026-01-01T00:00:00.5Z one\n"
    assert client.log("a", "driver", 5) == ""
    asked = parse_qs(urlsplit(server.asked[0][1]).query)
    assert asked == {
        "container": ["driver"],
        "tailLines": ["5"],
        "previous": ["false"],
        "timestamps": ["true"],
        "sinceTime": ["2026-01-01T01:00:00Z"],
    }


def test_what_is_missing_is_none_but_not_for_a_creation(
    client: KubernetesClient, server: ScriptedApiServer
) -> None:
    server.answers = [(404, {"message": "not found"})] * 4
    assert client.get(PODS, "a") is None
    assert client.patch(CONFIG_MAPS, "a", {}) is None
    assert client.delete(PODS, "a", {}) is False
    with pytest.raises(SpecError):
        # The namespace itself is missing.
        client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})


def test_every_page_of_a_list_is_read(client: KubernetesClient, server: ScriptedApiServer) -> None:
    server.answers = [
        (200, {"items": [{"n": 1}], "metadata": {"continue": "next"}}),
        (200, {"items": [{"n": 2}], "metadata": {}}),
    ]
    assert client.list(PODS, {"a": "b"}, {"type": "Warning"}) == [{"n": 1}, {"n": 2}]
    assert "labelSelector=a%3Db" in server.asked[0][1]
    assert "fieldSelector=type%3DWarning" in server.asked[0][1]
    assert "continue=next" in server.asked[1][1]


def test_a_list_that_grew_too_old_between_two_pages_is_begun_anew_once(
    client: KubernetesClient, server: ScriptedApiServer
) -> None:
    first = (200, {"items": [{"n": 1}], "metadata": {"continue": "next"}})
    expired = (410, {"message": "The provided continue parameter is too old"})
    server.answers = [first, expired, first, (200, {"items": [{"n": 2}]})]
    assert client.list(PODS, {}) == [{"n": 1}, {"n": 2}]
    assert "continue" not in server.asked[2][1]
    server.answers = [first, expired, first, expired]
    with pytest.raises(UnavailableError) as caught:
        client.list(PODS, {})
    assert caught.value.error_id == "TIDE-K8S-001"


def test_applied_is_by_our_name_and_by_force(client: KubernetesClient, server: ScriptedApiServer) -> None:
    server.answers = [(200, {})]
    client.apply(CONFIG_MAPS, {"metadata": {"name": "a"}})
    ((verb, path, content, sent),) = server.asked
    assert (verb, content, sent) == ("PATCH", "application/apply-patch+yaml", {"metadata": {"name": "a"}})
    assert path == "/api/v1/namespaces/plant/configmaps/a?fieldManager=tidemill&force=true"


def test_a_log_that_is_not_there_yet_is_empty(client: KubernetesClient, server: ScriptedApiServer) -> None:
    server.answers = [(400, {"message": "container is waiting to start"}), (404, {}), (200, "one\ntwo\n")]
    assert [client.log("a", "driver", 5) for _ in range(3)] == ["", "", "one\ntwo\n"]
