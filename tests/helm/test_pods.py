"""Properties that every pod of the chart has."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from tests.support.chart import (
    ChartError,
    Document,
    containers,
    environment_file,
    of_kind,
    pod_templates,
    render,
)

IMAGE = re.compile(r"^[a-z0-9.-]+(/[a-z0-9._-]+)+:[A-Za-z0-9._-]+$")


@pytest.mark.parametrize("file", ["evaluation", "azure", "external-airflow"])
def test_every_container_is_locked_up(file: str) -> None:
    for name, template in pod_templates(render(file)):
        assert template["spec"]["securityContext"]["runAsUser"] == 10001, name
        for container in containers(template):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "privileged": False,
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
            }, name


@pytest.mark.parametrize("file", ["evaluation", "azure"])
def test_every_container_says_what_it_needs_and_which_image_it_is(file: str) -> None:
    for name, template in pod_templates(render(file)):
        for container in containers(template):
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
            # Memory only: a limit on processor time would slow down what could run.
            assert container["resources"]["limits"].keys() == {"memory"}, name
            assert IMAGE.match(container["image"]), name


def test_an_image_with_a_digest_is_that_one_everywhere() -> None:
    digest = f"sha256:{'0' * 64}"
    names = ("spark", "airflow", "broker", "database")
    documents = render("evaluation", values={"images": {name: {"digest": digest} for name in names}})
    used = {each["image"] for _, template in pod_templates(documents) for each in containers(template)}
    used.add(environment_file(documents)["kubernetes"]["image"])
    assert {image.partition("@")[2] for image in used} == {digest}


def test_a_release_has_a_name_with_which_all_its_pods_can_be_made() -> None:
    documents = render("evaluation", release="r" * 42)
    # Suffix that a controller adds to a name when it becomes a label of at most 63 characters.
    added = {"StatefulSet": len("-1234567890"), "Job": 0, "Service": 0}
    lengths = [
        len(each["metadata"]["name"]) + added[each["kind"]] for each in documents if each["kind"] in added
    ]
    assert max(lengths) == 63
    with pytest.raises(ChartError, match="42 at most"):
        render("evaluation", release="r" * 43)


def test_logs_of_tasks_do_not_fill_a_nodes_disk() -> None:
    scheduler = of_kind(render("evaluation"), "StatefulSet")["tidemill-scheduler"]["spec"]["template"]["spec"]
    (home,) = [each for each in scheduler["volumes"] if each["name"] == "home"]
    assert "sizeLimit" in home["emptyDir"]


def test_the_trial_fits_into_two_cores() -> None:
    documents = render("evaluation")
    chart = sum((cores(template) for _, template in pod_templates(documents)), Fraction())
    size = environment_file(documents)["sizes"]["small"]
    driver, executors = size["driver"], size["executors"]
    stream = quantity(driver["cpu_request"]) + executors["min"] * quantity(executors["cpu_request"])
    # Two streams, one incremental run at the same time, and a quarter of a core for the cluster itself.
    assert chart + 3 * stream <= 2 - Fraction(1, 4)


def cores(template: Document) -> Fraction:
    """Return the CPU that a pod reserves; init containers run earlier and are smaller."""
    return sum(
        (quantity(each["resources"]["requests"]["cpu"]) for each in template["spec"]["containers"]),
        Fraction(),
    )


def quantity(text: str) -> Fraction:
    return Fraction(text.removesuffix("m")) / 1000 if text.endswith("m") else Fraction(text)


def test_every_selector_finds_its_own_pods_and_no_others() -> None:
    documents = render("evaluation")
    labels = {name: template["metadata"]["labels"] for name, template in pod_templates(documents)}
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet"):
            wanted = document["spec"]["selector"]["matchLabels"].items()
            own = f"{document['kind']}/{document['metadata']['name']}"
            assert [name for name, given in labels.items() if wanted <= given.items()] == [own]


def test_every_service_leads_to_a_port_that_is_open() -> None:
    documents = render("evaluation")
    templates = [template for _, template in pod_templates(documents)]
    for name, service in of_kind(documents, "Service").items():
        wanted = service["spec"]["selector"].items()
        (target,) = [each for each in templates if wanted <= each["metadata"]["labels"].items()]
        open_ports = {port["name"]: port["containerPort"] for port in containers(target)[-1]["ports"]}
        for port in service["spec"]["ports"]:
            assert open_ports[port["targetPort"]] == port["port"], name
