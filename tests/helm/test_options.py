"""Objects that the chart renders for some values: all, only those that streams need, none that are off."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

import tidemill
from tests.support.chart import (
    BARE,
    CHART,
    ChartError,
    Document,
    containers,
    environment_file,
    of_kind,
    pod_templates,
    render,
)
from tidemill.dev.airflow_variables import API_PATIENCE
from tidemill.metrics import CONTROL_METRICS, DRIVER_METRICS

RUNBOOKS = Path(__file__).parents[2] / "dags" / "runbooks"
METRIC = re.compile(r"tidemill_[a-z_]+")


def test_with_everything_off_there_is_what_streams_need_and_no_more() -> None:
    documents = render(values=BARE)
    assert Counter(each["kind"] for each in documents) == {
        "ConfigMap": 2,
        "Namespace": 1,
        "Role": 2,
        "RoleBinding": 2,
        "ServiceAccount": 3,
    }
    assert set(of_kind(documents, "ConfigMap")) == {"tidemill-streams", "tidemill-environment"}


def test_beside_another_airflow_no_pod_runs() -> None:
    documents = render("external-airflow")
    assert not {"Deployment", "StatefulSet"} & {each["kind"] for each in documents}
    assert set(of_kind(documents, "Job")) == {"tidemill-drain"}


def test_beside_another_airflow_no_image_of_ours_is_needed_but_the_drivers() -> None:
    documents = render("external-airflow")
    used = {each["image"] for _, template in pod_templates(documents) for each in containers(template)}
    assert used == {environment_file(documents)["kubernetes"]["image"]}


def test_cluster_wide_objects_come_only_when_asked_for() -> None:
    assert of_kind(render("evaluation"), "PriorityClass") == {}
    classes = of_kind(render("azure"), "PriorityClass")
    assert {name: each["preemptionPolicy"] for name, each in classes.items()} == {
        "tidemill-tidemill-streams-100000": "Never",
        "tidemill-tidemill-control-plane-50000": "Never",
    }


def test_streams_keep_the_priority_class_that_they_were_started_with() -> None:
    before = of_kind(render("azure"), "PriorityClass")
    policies = [each["metadata"]["annotations"]["helm.sh/resource-policy"] for each in before.values()]
    assert policies == ["keep", "keep"]
    # A PriorityClass is immutable and cluster-scoped. So another value or namespace needs another name.
    values = {"priorityClasses": {"streams": 1000000, "controlPlane": 60000}}
    for after in (render("azure", values=values), render("azure", namespace="other")):
        assert not set(before) & set(of_kind(after, "PriorityClass"))
    settings = environment_file(render("azure", values=values))["kubernetes"]
    assert settings["pods"]["priority_class"] == "tidemill-tidemill-streams-1000000"


def test_an_existing_claim_is_used_and_none_is_made() -> None:
    documents = render("evaluation", values={"data": {"persistence": {"existingClaim": "lake"}}})
    assert set(of_kind(documents, "PersistentVolumeClaim")) == {"tidemill-broker", "tidemill-database"}
    (claim,) = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in of_kind(documents, "StatefulSet")["tidemill-scheduler"]["spec"]["template"]["spec"][
            "volumes"
        ]
        if volume["name"] == "claim-0"
    ]
    assert claim == "lake"


def alerts(documents: list[Document]) -> list[Document]:
    groups = (
        group for each in of_kind(documents, "PrometheusRule").values() for group in each["spec"]["groups"]
    )
    return [rule for group in groups for rule in group["rules"]]


def test_every_alert_speaks_of_metrics_that_there_are_and_pages_that_exist() -> None:
    rules = alerts(render("azure"))
    assert len({rule["alert"] for rule in rules}) == len(rules) == 17
    for rule in rules:
        assert set(METRIC.findall(rule["expr"])) <= known_metrics()
        assert (RUNBOOKS / f"{rule['annotations']['runbook']}.md").is_file()
        assert "runbook_url" not in rule["annotations"]


def test_alerts_are_linked_to_where_the_pages_are_read() -> None:
    values = {"monitoring": {"rules": {"runbookUrl": "https://git.example.com/runbooks/"}}}
    for rule in alerts(render("azure", values=values)):
        page = rule["annotations"]["runbook"]
        assert rule["annotations"]["runbook_url"] == f"https://git.example.com/runbooks/{page}.md"


def test_alerts_without_what_knows_of_streams_that_are_down_are_refused() -> None:
    with pytest.raises(ChartError, match=r"monitoring\.exporter"):
        render("azure", values={"monitoring": {"exporter": {"enabled": False}}})


def test_dashboards_show_metrics_that_there_are() -> None:
    data = of_kind(render("azure"), "ConfigMap")["tidemill-dashboards"]["data"]
    assert set(data) == {"tidemill-streams.json", "tidemill-pipeline.json", "tidemill-control-plane.json"}
    for text in data.values():
        targets = [target for panel in json.loads(text)["panels"] for target in panel["targets"]]
        shown = {name for target in targets for name in METRIC.findall(target["expr"])}
        assert shown
        assert shown <= known_metrics()


def test_what_tells_metrics_reads_storage_and_may_do_nothing() -> None:
    documents = render("azure")
    pod = of_kind(documents, "Deployment")["tidemill-metrics"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["args"][-2:] == ["--airflow-url", "http://tidemill-api-server:8080"]
    assert "envFrom" not in container
    assert "env" not in container
    spec = of_kind(documents, "PodMonitor")["tidemill-metrics"]["spec"]
    assert spec["podMetricsEndpoints"] == [{"port": "metrics", "path": "/metrics", "interval": "30s"}]
    off = {"monitoring": {"exporter": {"enabled": False}, "rules": {"enabled": False}}}
    assert "tidemill-metrics" not in of_kind(render("azure", values=off), "Deployment")


def known_metrics() -> set[str]:
    return {metric.name for metric in (*DRIVER_METRICS, *CONTROL_METRICS)}


def test_drivers_are_scraped_at_the_port_that_they_name() -> None:
    spec = of_kind(render("azure"), "PodMonitor")["tidemill-drivers"]["spec"]
    assert spec["podMetricsEndpoints"] == [{"port": "http", "path": "/metrics", "interval": "30s"}]
    assert spec["selector"]["matchLabels"]["app.kubernetes.io/component"] == "driver"


def test_a_scrape_that_the_policies_would_refuse_is_refused() -> None:
    with pytest.raises(ChartError, match=r"networkPolicy\.metricsFrom"):
        render("azure", values={"networkPolicy": {"metricsFrom": []}})
    off = {"networkPolicy": {"enabled": False, "metricsFrom": []}}
    assert of_kind(render("azure", values=off), "PodMonitor")


def test_tasks_wait_for_the_api_server_as_long_as_those_of_a_standalone_airflow() -> None:
    settings = of_kind(render("evaluation"), "ConfigMap")["tidemill-airflow-settings"]["data"]
    assert API_PATIENCE.items() <= settings.items()


def test_the_chart_is_of_the_version_of_the_code() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == tidemill.__version__


@pytest.mark.parametrize("wrong", [{"broker": {"enabled": False}}, {"generator": {"enabled": True}}])
def test_a_generator_without_a_broker_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(AssertionError, match=r"evaluation\.generator"):
        render("evaluation" if "broker" in wrong else "external-airflow", values={"evaluation": wrong})
