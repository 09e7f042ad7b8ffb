"""Secrets are named, not made; only a trial makes its own."""

from __future__ import annotations

import base64
import json

import pytest

from tests.support.chart import CHART, ChartError, containers, of_kind, pod_templates, render
from tidemill.dev.chart_reference import documented_values


@pytest.mark.parametrize("files", [("azure",), ("external-airflow",)])
def test_no_secret_is_rendered_unless_asked_for(files: tuple[str, ...]) -> None:
    assert of_kind(render(*files), "Secret") == {}


def test_a_trial_generates_what_is_not_named() -> None:
    secrets = of_kind(render("evaluation"), "Secret")
    assert {name: set(secret["data"]) for name, secret in secrets.items()} == {
        "tidemill-rpc": {"secret"},
        "tidemill-airflow": {"fernet-key", "jwt-secret", "api-secret-key", "admin-password"},
        "tidemill-database": {"password", "connection"},
    }


def test_a_trial_takes_a_named_secret_instead() -> None:
    documents = render("evaluation", values={"secrets": {"airflow": "mine", "rpc": "ours"}})
    assert set(of_kind(documents, "Secret")) == {"tidemill-database"}


def test_the_fernet_key_is_one() -> None:
    secret = of_kind(render("evaluation"), "Secret")["tidemill-airflow"]
    key = base64.b64decode(secret["data"]["fernet-key"])
    assert len(base64.urlsafe_b64decode(key)) == 32


def test_generated_values_stand_in_secrets_only() -> None:
    documents = render("evaluation")
    values = [
        base64.b64decode(value).decode()
        for secret in of_kind(documents, "Secret").values()
        for value in secret["data"].values()
    ]
    others = json.dumps([each for each in documents if each["kind"] != "Secret"])
    assert [value for value in values if value in others] == []


def test_every_key_that_a_pod_needs_of_a_named_secret_is_documented() -> None:
    names = {"airflow": "given-airflow", "database": "given-database"}
    needed: set[tuple[str, str]] = set()
    for _, template in pod_templates(render("evaluation", values={"secrets": names})):
        for container in containers(template):
            sources = [each.get("valueFrom", {}).get("secretKeyRef") for each in container.get("env", [])]
            needed |= {(each["name"], each["key"]) for each in sources if each}
        for volume in template["spec"].get("volumes", []):
            items = volume.get("secret", {}).get("items", [])
            needed |= {(volume["secret"]["secretName"], item["key"]) for item in items}
    assert {name for name, _ in needed} == set(names.values())
    about = {value.path: value.about for value in documented_values((CHART / "values.yaml").read_text())}
    assert [
        each for each in needed if f"`{each[1]}`" not in about[f"secrets.{each[0].removeprefix('given-')}"]
    ] == []


@pytest.mark.parametrize("missing", ["database", "airflow", "rpc"])
def test_a_secret_that_nobody_names_is_asked_for(missing: str) -> None:
    with pytest.raises(ChartError, match=rf"secrets\.{missing}: name an existing Secret"):
        render("azure", values={"secrets": {missing: ""}})
