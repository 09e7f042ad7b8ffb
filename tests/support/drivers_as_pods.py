"""Short words for tests about drivers as pods."""

from __future__ import annotations

from tests.support.api_server import ApiServerInMemory
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.api import JOBS
from tidemill.control.kubernetes.kubernetes_runtime import KubernetesRuntime
from tidemill.control.runtime import Runtime, StartedDriver, is_held

POD = "tidemill-orders-0"


def stream(run_id: str = "run-1") -> DriverRun:
    return DriverRun("orders", "stream", run_id)


def bounded(run_id: str = "run-1", pipeline: str = "daily") -> DriverRun:
    return DriverRun(pipeline, "incremental", run_id)


def started(runtime: KubernetesRuntime, run: DriverRun) -> StartedDriver:
    result = runtime.start(run, "d1")
    assert result.started
    return result.driver


def newest(runtime: KubernetesRuntime, name: str = "orders") -> StartedDriver:
    found = runtime.last_start(name)
    assert found is not None
    return found


def is_alive(runtime: KubernetesRuntime, name: str = "orders") -> bool:
    return newest(runtime, name).alive


def held(runtime: Runtime) -> list[str]:
    """Return pipelines whose main slot is held, or may be."""
    return sorted(name for name, slot in runtime.main_slots().items() if is_held(slot))


def job_name(api: ApiServerInMemory) -> str:
    (job,) = api.list(JOBS, {})
    return str(job["metadata"]["name"])
