"""A stream's driver runs in one pod, whatever its StatefulSet is scaled to, and not again once fenced off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidemill.engine.driver_pod import DriverPod, check_first_pod, check_not_fenced, mark_fenced
from tidemill.errors import FencedError, GateRefusedError


def pod(name: str) -> DriverPod:
    return DriverPod(name, "4d5e6f70", "10.96.0.7", "plant", "0a1b2c3d")


@pytest.mark.parametrize("name", ["tidemill-orders-1", "tidemill-orders-10"])
def test_a_further_pod_of_a_stream_is_refused(name: str) -> None:
    with pytest.raises(GateRefusedError) as refusal:
        check_first_pod(pod(name), "stream")
    assert refusal.value.error_id == "TIDE-K8S-024"
    assert refusal.value.facts == {"pod": name, "namespace": "plant"}
    assert refusal.value.exit_code == 66


@pytest.mark.parametrize(
    ("name", "mode"), [("tidemill-orders-0", "stream"), ("tidemill-orders-5f3a-x7k2p", "incremental")]
)
def test_the_first_pod_and_the_pod_of_a_job_may_start(name: str, mode: str) -> None:
    check_first_pod(pod(name), mode)


def test_a_driver_outside_of_a_pod_may_start() -> None:
    check_first_pod(None, "stream")


def test_a_pod_whose_driver_was_fenced_off_starts_none_any_more(tmp_path: Path) -> None:
    fenced = replace(pod("tidemill-orders-0"), scratch=str(tmp_path))
    check_not_fenced(fenced)
    mark_fenced(fenced)
    mark_fenced(fenced)
    with pytest.raises(FencedError) as refusal:
        check_not_fenced(fenced)
    assert refusal.value.error_id == "TIDE-K8S-025"
    assert refusal.value.facts == {"pod": "tidemill-orders-0", "namespace": "plant"}
    assert refusal.value.exit_code == 75


def test_a_full_scratch_folder_does_not_hide_that_a_driver_was_fenced_off(tmp_path: Path) -> None:
    mark_fenced(replace(pod("tidemill-orders-0"), scratch=str(tmp_path / "gone")))


def test_a_driver_outside_of_a_pod_is_never_marked() -> None:
    mark_fenced(None)
    check_not_fenced(None)
