"""The environment file of a release as drivers read it, with the given values and the release's facts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.chart import ChartError, environment_file, of_kind, pod_templates, render
from tidemill.spec.environment import EnvironmentSpec

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("file", ["evaluation", "azure", "external-airflow"])
def test_drivers_accept_the_file(file: str) -> None:
    EnvironmentSpec.model_validate(environment_file(render(file)))


def test_the_trial_is_the_one_that_conf_describes() -> None:
    given = yaml.safe_load((REPOSITORY / "conf/environments/evaluation.yaml").read_text())
    rendered = environment_file(render("evaluation"))
    assert EnvironmentSpec.model_validate(rendered) == EnvironmentSpec.model_validate(given)


def test_the_release_fills_in_what_it_knows() -> None:
    documents = render("evaluation", release="other", namespace="there")
    settings = environment_file(documents, "other")["kubernetes"]
    assert settings["namespace"] == "there-streams"
    assert settings["service_accounts"] == {"driver": "other-driver", "executor": "other-executor"}
    assert settings["owner"] in of_kind(documents, "ConfigMap")
    assert settings["rpc_secret"] in of_kind(documents, "Secret")
    assert [volume["claim"] for volume in settings["volumes"]] == ["other-data"]
    assert set(settings["service_accounts"].values()) == set(
        of_kind(documents, "ServiceAccount", "there-streams")
    )


def test_what_is_given_wins() -> None:
    given = {
        "image_pull_policy": "Always",
        "image": "docker.io/mine/spark:2",
        "pods": {"labels": {"team": "a"}},
    }
    values = {"environment": {"file": {"kubernetes": given}}, "priorityClasses": {"enabled": True}}
    settings = environment_file(render("evaluation", values=values))["kubernetes"]
    assert (settings["image_pull_policy"], settings["image"]) == ("Always", "docker.io/mine/spark:2")
    assert settings["pods"] == {"labels": {"team": "a"}, "priority_class": "tidemill-tidemill-streams-100000"}


def test_on_azure_an_upgrade_of_the_nodes_may_move_a_stream() -> None:
    assert environment_file(render("azure"))["kubernetes"]["pods"]["evictable"] is True


def test_on_azure_whoever_opens_the_storage_has_an_identity() -> None:
    documents = render("azure")
    file = environment_file(documents)
    assert file["storage"] == {"azure": {"identity": "workload"}}
    label = {"azure.workload.identity/use": "true"}.items()
    assert label <= file["kubernetes"]["pods"]["labels"].items()
    templates = dict(pod_templates(documents))
    accounts = set(file["kubernetes"]["service_accounts"].values())
    parts = (
        "StatefulSet/tidemill-scheduler",
        "StatefulSet/tidemill-triggerer",
        "Deployment/tidemill-api-server",
    )
    for name in parts:
        assert label <= templates[name]["metadata"]["labels"].items()
        accounts.add(templates[name]["spec"]["serviceAccountName"])
    given = of_kind(documents, "ServiceAccount")
    for account in accounts:
        assert "azure.workload.identity/client-id" in given[account]["metadata"]["annotations"], account


def test_airflow_and_drivers_agree_on_place_and_name() -> None:
    documents = render("evaluation")
    (key,) = of_kind(documents, "ConfigMap")["tidemill-environment"]["data"]
    variables = of_kind(documents, "ConfigMap")["tidemill-airflow-settings"]["data"]
    assert variables["TIDEMILL_ENV"] == f"/etc/tidemill/environment/{key}"
    readers = {
        name
        for name, template in pod_templates(documents)
        if any(volume["name"] == "environment" for volume in template["spec"].get("volumes", []))
    }
    assert readers == {
        "StatefulSet/tidemill-scheduler",
        "StatefulSet/tidemill-triggerer",
        "Deployment/tidemill-api-server",
        "Deployment/tidemill-dag-processor",
    }


@pytest.mark.parametrize("root", ["/data/lake", "lake", "/lakes/a", "/lake2", "file:///data/lake"])
def test_a_root_that_vanishes_with_its_pod_is_refused(root: str) -> None:
    kubernetes = {"volumes": [{"claim": "mine", "path": "/lake"}]}
    file = {"root": root, "storage": None, "kubernetes": kubernetes}
    with pytest.raises(ChartError, match=r"data\.persistence"):
        render("external-airflow", values={"environment": {"file": file}})


@pytest.mark.parametrize("root", ["/lake", "/lake/a", "file:///lake/a", "s3://bucket/lake"])
def test_a_root_that_lasts_is_taken(root: str) -> None:
    kubernetes = {"volumes": [{"claim": "mine", "path": "/lake"}]}
    file = {"root": root, "storage": None, "kubernetes": kubernetes}
    documents = render("external-airflow", values={"environment": {"file": file}})
    assert EnvironmentSpec.model_validate(environment_file(documents)).root == root


def test_airflow_has_the_volumes_and_secrets_that_drivers_have() -> None:
    own = {"volumes": [{"claim": "mine", "path": "/lake"}], "secrets": ["ours"]}
    file = {"root": "/lake/a", "storage": None, "kubernetes": own}
    sets = of_kind(render("azure", values={"environment": {"file": file}}), "StatefulSet")
    for name in ("tidemill-scheduler", "tidemill-triggerer"):
        spec = sets[name]["spec"]["template"]["spec"]
        volumes = {each["name"]: each for each in spec["volumes"]}
        mounts = {each["mountPath"]: volumes[each["name"]] for each in spec["containers"][0]["volumeMounts"]}
        assert mounts["/lake"]["persistentVolumeClaim"] == {"claimName": "mine"}
        assert mounts["/run/secrets/tidemill"]["projected"]["sources"] == [{"secret": {"name": "ours"}}]


@pytest.mark.parametrize(
    "values",
    [
        {"airflw": {}},
        {"airflow": {"sheduler": {}}},
        {"images": {"spark": {"name": "x"}}},
        {"images": {"spark": {"tag": "1.0 "}}},
        {"images": {"spark": {"digest": "sha256:1"}}},
        {"environment": {"name": "1st"}},
        {"environment": {"file": {"runtime": "local"}}},
        {"environment": {"file": {"kafkaa": {}}}},
        {"environment": {"file": {"kubernetes": {"namespce": "x"}}}},
        {"environment": {"file": {"sizes": {"small": {"driver": {"core": 1}}}}}},
        {"evaluation": {"generator": {"eventsPerSecond": 0}}},
        {"networkPolicy": {"brokers": {"cidrs": ["everything"]}}},
    ],
    ids=str,
)
def test_a_value_that_nobody_knows_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ChartError, match="don't meet the specifications of the schema"):
        render("evaluation", values=values)
