"""The admission policies for drivers, as the chart renders them; e2e tests ask an API server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.chart import Document, of_kind, render

EXECUTORS, REMOVALS = "tidemill-tidemill-executors", "tidemill-tidemill-removals"


def policy(documents: list[Document]) -> Document:
    spec: Document = of_kind(documents, "ValidatingAdmissionPolicy")[EXECUTORS]["spec"]
    return spec


def secrets_of(documents: list[Document]) -> str:
    variables = {each["name"]: each["expression"] for each in policy(documents)["variables"]}
    return str(variables["secretsOfPipelines"])


def rules(documents: list[Document]) -> str:
    return "\n".join(each["expression"] for each in policy(documents)["validations"])


@pytest.mark.parametrize("file", ["evaluation", "azure", "external-airflow"])
def test_every_release_limits_its_drivers_and_refuses_where_in_doubt(file: str) -> None:
    documents = render(file)
    policies = of_kind(documents, "ValidatingAdmissionPolicy")
    assert {name: each["spec"]["failurePolicy"] for name, each in policies.items()} == {
        EXECUTORS: "Fail",
        REMOVALS: "Fail",
    }
    bindings = of_kind(documents, "ValidatingAdmissionPolicyBinding")
    assert {name: each["spec"]["validationActions"] for name, each in bindings.items()} == {
        EXECUTORS: ["Deny"],
        REMOVALS: ["Deny"],
    }
    for each in policies.values():
        (condition,) = each["spec"]["matchConditions"]
        assert "'system:serviceaccount:tidemill-streams:tidemill-driver'" in condition["expression"]


def test_nothing_cluster_wide_is_made_where_the_cluster_or_the_installer_cannot() -> None:
    off = render("azure", values={"streams": {"admissionPolicy": False}})
    old = render("azure", kubernetes_version="1.29.4")
    for documents in (off, old):
        assert of_kind(documents, "ValidatingAdmissionPolicy") == {}
        assert of_kind(documents, "ValidatingAdmissionPolicyBinding") == {}


def test_a_pipeline_with_secrets_of_its_own_has_those_instead_of_the_others() -> None:
    own = {
        "orders": {"secrets": ["orders-hub"], "rpc_secret": "orders-rpc"},
        "returns": {"secrets": []},
        "stock": {"rpc_secret": "stock-rpc"},
    }
    documents = render("azure", values={"environment": {"file": {"kubernetes": {"pipelines": own}}}})
    assert secrets_of(documents) == (
        "{'':['tidemill-drivers','tidemill-rpc'],"
        "'orders':['orders-hub','orders-rpc'],"
        "'returns':['tidemill-rpc'],"
        "'stock':['tidemill-drivers','stock-rpc']}"
    )


@pytest.mark.parametrize(
    "image",
    [
        {"repository": "registry.example.com:5000/a/spark", "tag": "9"},
        {"repository": "registry.example.com:5000/a/spark", "digest": f"sha256:{'0' * 64}"},
    ],
)
def test_executors_run_the_drivers_image_in_whatever_version(image: dict[str, Any]) -> None:
    text = rules(render("azure", values={"images": {"spark": image}}))
    assert "startsWith('registry.example.com:5000/a/spark:')" in text
    assert "startsWith('registry.example.com:5000/a/spark@')" in text


def test_executors_mount_the_claims_of_the_environment() -> None:
    assert "claimName in ['tidemill-data']" in rules(render("evaluation"))
    assert "claimName in []" in rules(render("azure"))
