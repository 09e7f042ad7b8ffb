"""Network policies: nothing by default, then exactly the ways that are needed.

No cluster of the tests enforces policies, so a small reading of them stands in: it knows `podSelector`,
`matchLabels`, `matchExpressions` with `In`, ports, and takes an `ipBlock` for the world outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.chart import (
    AIRFLOW,
    STREAMS,
    Document,
    namespace_of,
    of_kind,
    pod_templates,
    render,
)

OUTSIDE = None
NAME, COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"

# Pods of streams; the last two are what a driver may try to make: one without a label, one that lies.
STREAM_PODS = {
    "driver": {NAME: "tidemill", COMPONENT: "driver"},
    "executor": {NAME: "tidemill", COMPONENT: "executor"},
    "nobody": {},
    "liar": {NAME: "tidemill", COMPONENT: "scheduler", "app.kubernetes.io/instance": "tidemill"},
}


def selects(selector: Document, labels: dict[str, str]) -> bool:
    exact = selector.get("matchLabels", {}).items() <= labels.items()
    return exact and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )


class Network:
    """The connections that a release's network policies allow."""

    def __init__(self, documents: list[Document]) -> None:
        self._policies = [each for each in documents if each["kind"] == "NetworkPolicy"]
        own = [template["metadata"]["labels"] for _, template in pod_templates(documents)]
        self.pods = {labels[COMPONENT]: labels for labels in own} | STREAM_PODS

    def allows(self, source: str, target: str | None, port: int) -> bool:
        """Return True if one end lets a connection out and the other lets it in; the outside accepts all."""
        out = self._open(source, target, port, "Egress")
        return out and (target is OUTSIDE or self._open(target, source, port, "Ingress"))

    def _open(self, pod: str, other: str | None, port: int, direction: str) -> bool:
        rules = [
            rule
            for policy in self.policies_for(pod)
            if direction in policy["policyTypes"]
            for rule in policy.get(direction.lower(), [])
        ]
        return any(self._fits(rule, (pod, other), port, direction) for rule in rules)

    def policies_for(self, pod: str) -> list[Document]:
        """Return the policies in a pod's namespace that select it."""
        own = [each["spec"] for each in self._policies if namespace_of(each) == where(pod)]
        return [policy for policy in own if selects(policy["podSelector"], self.pods[pod])]

    def _fits(self, rule: Document, ends: tuple[str, str | None], port: int, direction: str) -> bool:
        peers: list[Any] | None = rule.get("to" if direction == "Egress" else "from")
        ports = rule.get("ports")
        right_port = ports is None or any(each["port"] == port for each in ports)
        return right_port and (peers is None or any(self._is(peer, *ends) for peer in peers))

    def _is(self, peer: Document, pod: str, other: str | None) -> bool:
        """Return True if a peer of a policy for `pod` matches the other end."""
        if "ipBlock" in peer or other is OUTSIDE:
            return "ipBlock" in peer and other is OUTSIDE
        named = peer.get("namespaceSelector", {"matchLabels": {"kubernetes.io/metadata.name": where(pod)}})
        in_namespace = selects(named, {"kubernetes.io/metadata.name": where(other)})
        return in_namespace and selects(peer.get("podSelector", {}), self.pods[other])


def where(pod: str) -> str:
    """Return the namespace of the pod."""
    return STREAMS if pod in STREAM_PODS else AIRFLOW


ACTING = ("scheduler", "triggerer")
PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")


def needed() -> Iterator[tuple[str, str | None, int]]:
    """Yield every connection that the trial needs, name look-ups aside."""
    yield from ((part, "database", 5432) for part in (*PARTS, "migrate"))
    yield from ((part, "api-server", 8080) for part in ("scheduler", "triggerer", "dag-processor"))
    yield from (("api-server", "scheduler", 8793), ("api-server", "triggerer", 8794))
    yield from ((part, "broker", 9092) for part in (*ACTING, "driver", "executor", "topics", "generator"))
    yield from ((part, OUTSIDE, 6443) for part in (*ACTING, "api-server", "driver", "drain", "volume"))
    yield from ((part, OUTSIDE, 443) for part in (*ACTING, "api-server", "driver", "executor"))
    yield from (("executor", "driver", 7078), ("driver", "executor", 7079), ("executor", "executor", 7079))


@pytest.fixture(scope="module")
def network() -> Network:
    return Network(render("evaluation"))


@pytest.mark.parametrize(("source", "target", "port"), list(needed()))
def test_what_is_needed_is_open(network: Network, source: str, target: str | None, port: int) -> None:
    assert network.allows(source, target, port)


@pytest.mark.parametrize(
    ("source", "target", "port"),
    [
        ("driver", "database", 5432),
        ("executor", "database", 5432),
        ("driver", "api-server", 8080),
        ("driver", "scheduler", 8793),
        ("executor", OUTSIDE, 6443),
        ("dag-processor", OUTSIDE, 443),
        ("dag-processor", "broker", 9092),
        ("api-server", "broker", 9092),
        ("api-server", "driver", 8080),
        ("generator", OUTSIDE, 443),
        ("broker", OUTSIDE, 443),
        ("database", OUTSIDE, 443),
        ("scheduler", "driver", 8080),
        ("generator", "driver", 7078),
        ("nobody", OUTSIDE, 6443),
        ("nobody", "database", 5432),
        ("liar", "database", 5432),
        ("liar", "api-server", 8080),
        ("liar", OUTSIDE, 6443),
    ],
)
def test_what_is_not_needed_is_closed(network: Network, source: str, target: str | None, port: int) -> None:
    assert not network.allows(source, target, port)


def test_every_pod_is_under_a_policy_in_both_directions(network: Network) -> None:
    for pod in network.pods:
        directions = [set(policy["policyTypes"]) for policy in network.policies_for(pod)]
        assert {"Ingress", "Egress"} in directions, pod


def test_no_pod_of_the_streams_namespace_escapes_by_its_labels() -> None:
    policies = of_kind(render("azure"), "NetworkPolicy", STREAMS)
    assert policies["tidemill-streams"]["spec"]["podSelector"] == {}


def test_people_and_prometheus_come_in_where_the_values_say() -> None:
    policies = of_kind(render("azure"), "NetworkPolicy")
    people = policies["tidemill-api-server"]["spec"]["ingress"][0]["from"]
    assert {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}} in people
    metrics = policies["tidemill-spark"]["spec"]["ingress"][1]
    assert [port["port"] for port in metrics["ports"]] == [8080]


def test_what_tells_metrics_reaches_storage_and_airflow_and_is_reached_by_prometheus_alone() -> None:
    values = {"monitoring": {"exporter": {"enabled": True}}, "networkPolicy": {"metricsFrom": []}}
    network = Network(render("evaluation", values=values))
    assert network.allows("metrics", OUTSIDE, 443)
    assert network.allows("metrics", "api-server", 8080)
    assert not network.allows("metrics", "database", 5432)
    assert not network.allows("metrics", OUTSIDE, 6443)
    assert not network.allows("driver", "metrics", 9464)
    policy = of_kind(render("azure"), "NetworkPolicy")["tidemill-metrics"]["spec"]
    (rule,) = policy["ingress"]
    assert [port["port"] for port in rule["ports"]] == [9464]


def test_brokers_and_databases_in_pods_are_reached_where_the_values_say() -> None:
    kafka = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kafka"}}}
    pool = {"podSelector": {"matchLabels": {"app": "pgbouncer"}}}
    values = {"brokers": {"cidrs": [], "to": [kafka]}, "database": {"to": [pool]}}
    policies = of_kind(render("azure", values={"networkPolicy": values}), "NetworkPolicy")
    for name in ("tidemill-spark", "tidemill-control-plane"):
        rules = policies[name]["spec"]["egress"]
        assert [
            rule["to"] for rule in rules if {"protocol": "TCP", "port": 9093} in rule.get("ports", [])
        ] == [[kafka]]
    (rule,) = policies["tidemill-airflow-database"]["spec"]["egress"]
    everywhere = [{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]
    assert rule["to"] == [*everywhere, pool]


def test_the_api_server_reaches_outside_what_the_streams_page_and_logs_kept_elsewhere_need() -> None:
    def network(**airflow: bool) -> Network:
        return Network(render("evaluation", values={"airflow": airflow}))

    bare = network(streamsPage=False)
    assert not bare.allows("api-server", OUTSIDE, 6443)
    # The port of stores is also one of the Kubernetes API.
    assert not bare.allows("api-server", OUTSIDE, 443)
    logs = network(streamsPage=False, remoteLogs=True)
    assert logs.allows("api-server", OUTSIDE, 443)
    assert not logs.allows("api-server", OUTSIDE, 6443)
    assert not logs.allows("dag-processor", OUTSIDE, 443)


def test_where_nobody_is_named_nothing_is_open() -> None:
    storage = {"networkPolicy": {"storage": {"cidrs": []}}}
    network = Network(render("evaluation", values=storage))
    assert not network.allows("executor", OUTSIDE, 443)


def test_no_policy_is_made_where_they_are_off() -> None:
    off = {"networkPolicy": {"enabled": False}}
    assert of_kind(render("evaluation", values=off), "NetworkPolicy") == {}
