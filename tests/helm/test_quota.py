"""The quota counts what it is for, and leaves room for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.chart import CHART, STREAMS, environment_file, namespace_of, of_kind, render
from tidemill.spec.environment import DriverSize, EnvironmentSpec, Resources
from tidemill.spec.pod import memory_overhead
from tidemill.spec.project_folder import Project

PROJECT = Project(Path(__file__).parents[2])

WITH_QUOTA = sorted(
    file.stem.removeprefix("values-")
    for file in CHART.glob("values-*.yaml")
    if "quota" in yaml.safe_load(file.read_text())
)


def test_the_quota_is_the_one_given() -> None:
    hard = {"requests.cpu": "3", "pods": "9"}
    documents = render("evaluation", values={"quota": {"enabled": True, "hard": hard}})
    assert of_kind(documents, "ResourceQuota")["tidemill-quota"]["spec"]["hard"] == {
        "requests.cpu": "3",
        "requests.memory": "64Gi",
        "pods": "9",
    }


def test_a_quota_counts_streams_alone() -> None:
    (quota,) = [each for each in render("azure") if each["kind"] == "ResourceQuota"]
    assert namespace_of(quota) == STREAMS


@pytest.mark.parametrize("file", WITH_QUOTA)
def test_a_quota_has_room_for_the_pipelines_of_this_repository_with_all_their_executors(file: str) -> None:
    documents = render(file)
    sizes = EnvironmentSpec.model_validate(environment_file(documents)).sizes
    used = [sizes[PROJECT.load_pipeline(name).run.size] for name in PROJECT.pipeline_names()]
    (quota,) = of_kind(documents, "ResourceQuota").values()
    hard = quota["spec"]["hard"]
    assert sum(total(size, cores) for size in used) <= int(hard["requests.cpu"])
    gibibytes = sum(total(size, memory) for size in used) / 2**30
    assert gibibytes <= int(hard["requests.memory"].removesuffix("Gi"))
    assert sum(total(size, lambda _: 1) for size in used) <= int(hard["pods"])


def total(size: DriverSize, amount: Callable[[Resources], int]) -> int:
    """Return the resources of a driver with its maximum number of executors."""
    executors = size.executors
    return amount(size.driver) + (executors.max * amount(executors) if executors else 0)


def cores(resources: Resources) -> int:
    assert resources.cpu_request is None
    return resources.cores


def memory(resources: Resources) -> int:
    return resources.memory + memory_overhead(resources)
