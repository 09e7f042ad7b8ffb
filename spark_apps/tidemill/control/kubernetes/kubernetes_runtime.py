"""Drivers as pods: they outlive their starter and Airflow, and at most one holds a slot.

A slot is a ConfigMap, `tidemill-<pipeline>`. A starter claims it by creating it, or by replacing the version
that it has read. The winner creates the workload. Every look reads from the API server; nothing is cached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidemill.control.driver_command import DriverRun
from tidemill.control.driver_log import LogNews, LogPosition
from tidemill.control.kubernetes import slot_objects
from tidemill.control.kubernetes.api import CONFIG_MAPS, JOBS, ConflictError, Document, KubernetesApi, insist
from tidemill.control.kubernetes.driver_pod import ENGINE, DriverProgram, Start, owner_reference
from tidemill.control.kubernetes.observed import Observed, is_starting, started_driver
from tidemill.control.kubernetes.pod_log import read_pod_log
from tidemill.control.kubernetes.slot_memory import SlotMemory, text_in
from tidemill.control.kubernetes.slot_record import DRAIN_REQUESTED_AT, SlotRecord
from tidemill.control.kubernetes.slot_view import look, look_at_all, trouble, troubles
from tidemill.control.kubernetes.stuck import why_stuck
from tidemill.control.kubernetes.workload import (
    delete_pod,
    make_workload,
    refuse_foreign_objects,
    remove_jobs,
    want_no_pod,
)
from tidemill.control.runtime import Identity, MainSlot, Slot, StartedDriver, StartResult, slot_of
from tidemill.errors import SpecError, TidemillError, UnavailableError
from tidemill.spec.pod import kubernetes_of
from tidemill.spec.project import Environment, resolve_pipeline

# Seconds from SIGTERM to SIGKILL for a driver that is killed. Never 0, because that would free the pod's name
# before the kubelet has ended the process, and a second driver could run at the same time.
KILL_GRACE_SECONDS = 1


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


@dataclass
class KubernetesRuntime:
    """Drivers as pods of one namespace.

    Args:
        environment: The environment of the drivers.
        api: The API server.
        program: The program of a driver's container.
        clock: Returns the current time.
    """

    environment: Environment
    api: KubernetesApi
    program: DriverProgram = ENGINE
    clock: Callable[[], datetime] = field(default=utc_now)

    def of(self, environment: Environment) -> KubernetesRuntime:
        """Return the same runtime for another version's environment."""
        return replace(self, environment=environment)

    def identity(self) -> Identity:
        """Return the identity of the control plane: its namespace, for all users and processes."""
        metadata = self.api.namespace()["metadata"]
        return Identity(metadata["uid"], f"namespace {metadata['name']}")

    def start(self, run: DriverRun, digest: str) -> StartResult:
        """Start a driver unless one holds the slot.

        1. Look. 2. Claim the slot at the version that was read; if several starters race, one wins. 3. Create
        the workload. A starter that dies between 2 and 3 leaves a claim without a workload. The same run
        continues with 3; any other run may claim the slot after half a minute.

        Raises:
            SpecError: TIDE-K8S-005, if an object of this name is not Tidemill's; TIDE-K8S-006, without an
                owner.
            UnavailableError: TIDE-K8S-003, if other starters keep claiming the slot; TIDE-K8S-009, if a pod
                of the pipeline's former mode still exists.
        """
        seen = self._look(run.pipeline, slot_of(run.mode))
        found = self._join(seen, run)
        if found is not None:
            return found
        self._clear_former_mode(seen, run)
        start = self._plan(run, SlotRecord(run.run_id, run.mode, digest, self.clock()))
        refuse_foreign_objects(self.api, seen, start)
        try:
            self._claim(start, seen.config_map)
        except ConflictError:
            # Another starter was first, or a proxy has sent this claim twice.
            found = self._join(self._look(run.pipeline, slot_of(run.mode)), run)
            if found is None:
                raise
            return found
        return self._make(start)

    def check(self, run: DriverRun) -> None:
        """Check that the API server would accept the objects of a bounded run, and that their owner exists.

        Raises:
            TidemillError: TIDE-K8S-001 to -007, as a start would.
        """
        start = self._plan(run, SlotRecord(run.run_id, run.mode, "", self.clock()))
        self.api.check(JOBS, slot_objects.job(start))

    def last_start(self, pipeline: str, slot: Slot = "main") -> StartedDriver | None:
        """Return the newest start in a slot, running or ended; None if there was none."""
        seen = self._look(pipeline, slot)
        driver = started_driver(seen, self.clock())
        if driver is None or not driver.alive:
            return driver
        return self._with_trouble(driver, seen, trouble(self.api, seen))

    def drain(self, driver: StartedDriver) -> bool:
        """Ask a driver to finish its batch and stop; False if it has ended.

        The request is recorded before the pod is asked. If this process dies in between, the next request
        completes it, or the driver is killed when the record is old.
        """
        return insist(lambda: self._drain(driver))

    def kill(self, driver: StartedDriver) -> bool:
        """End a driver and its executors at once; False if it has ended.

        If a recorded drain never reached the pod, the driver is drained instead, and its grace period starts
        now.
        """
        return insist(lambda: self._kill(driver))

    def put_away(self, driver: StartedDriver) -> None:
        """Scale the StatefulSet of an ended stream to zero, so that the kubelet does not start it again."""
        insist(lambda: self._put_away(driver))

    def main_slots(self) -> dict[str, MainSlot | TidemillError]:
        """Return the main slots of all pipelines that were ever started here; always five calls."""
        found = look_at_all(self.api, kubernetes_of(self.environment).namespace)
        reasons = troubles(self.api, found)
        return {seen.pipeline: self._main_slot(seen, reasons.get(seen.pipeline, "")) for seen in found}

    def memory(self, pipeline: str) -> SlotMemory:
        """Return the storage of a pipeline's driver history."""
        return SlotMemory(self.api, pipeline)

    def read_log(self, driver: StartedDriver, since: LogPosition | None = None) -> LogNews:
        """Return the events of its pod, and its log."""
        return read_pod_log(self.api, self._look(driver.pipeline, slot_of(driver.mode)), driver, since)

    def _look(self, pipeline: str, slot: Slot) -> Observed:
        return look(self.api, kubernetes_of(self.environment).namespace, pipeline, slot)

    def _look_for(self, driver: StartedDriver) -> tuple[Observed, StartedDriver | None]:
        """Return the slot now, and this driver if it is still the newest in it."""
        seen = self._look(driver.pipeline, slot_of(driver.mode))
        now = started_driver(seen, self.clock())
        return seen, now if now is not None and now.run_id == driver.run_id else None

    def _main_slot(self, seen: Observed, reason: str) -> MainSlot | TidemillError:
        try:
            driver = started_driver(seen, self.clock())
        except TidemillError as error:
            return error
        if driver is not None and driver.alive:
            driver = self._with_trouble(driver, seen, reason)
        return MainSlot(driver, text_in(seen.config_map))

    def _with_trouble(self, driver: StartedDriver, seen: Observed, reason: str) -> StartedDriver:
        """Return a running driver with the reason that delays its first start or its end."""
        process = ", ".join(part for part in (driver.process, reason) if part)
        return replace(
            driver, process=process, stuck=why_stuck(seen, driver.claimed_at, reason, self.clock())
        )

    def _join(self, seen: Observed, run: DriverRun) -> StartResult | None:
        """Continue a claim of this run, or return the running driver; None if the slot is free."""
        claim = seen.record
        if claim is not None and claim.run_id == run.run_id and is_starting(seen, self.clock()):
            return self._make(self._plan(run, claim))
        driver = started_driver(seen, self.clock())
        return None if driver is None or not driver.alive else StartResult(driver, started=False)

    def _plan(self, run: DriverRun, record: SlotRecord) -> Start:
        pipeline = resolve_pipeline(self.environment, run.pipeline)
        owner = owner_reference(self._owner())
        return Start(pipeline, run, record, owner, self.identity().id, self.program)

    def _owner(self) -> Document:
        name = kubernetes_of(self.environment).owner
        owner = self.api.get(CONFIG_MAPS, name)
        if owner is None:
            raise SpecError(
                "TIDE-K8S-006",
                "The ConfigMap that owns the objects of pipelines is not there.",
                facts={"name": name, "namespace": kubernetes_of(self.environment).namespace},
                fix="install the chart, which makes it, or correct `kubernetes.owner` of the environment",
                runbook="kubernetes-object-refused",
            )
        return owner

    def _claim(self, start: Start, seen: Document | None) -> None:
        document = slot_objects.slot_config_map(start, seen)
        if seen is None:
            self.api.create(CONFIG_MAPS, document)
        else:
            self.api.replace(CONFIG_MAPS, document)

    def _make(self, start: Start) -> StartResult:
        """Create the workload, and return the resulting driver."""
        make_workload(self.api, start)
        driver = self.last_start(start.pipeline.name, slot_of(start.run.mode))
        if driver is None:
            raise UnavailableError(
                "TIDE-K8S-010",
                "The claim of a driver was deleted while the driver was being made.",
                facts={"pipeline": start.pipeline.name, "object": start.slot_name},
                fix="try again",
                runbook="kubernetes-unavailable",
            )
        return StartResult(driver, started=driver.run_id == start.run.run_id)

    def _clear_former_mode(self, seen: Observed, run: DriverRun) -> None:
        """Raise if a pod of the stream still exists, before a bounded run replaces the stream."""
        if run.mode == "stream" or not (seen.wanted_pods or seen.stream_pods):
            return
        want_no_pod(self.api, seen)
        raise UnavailableError(
            "TIDE-K8S-009",
            "A pod of the stream that this pipeline was is still there; it is being removed.",
            facts={"pipeline": run.pipeline, "pods": [facts.name for facts in seen.stream_pods]},
            fix="try again in a minute",
            runbook="kubernetes-object-refused",
        )

    def _drain(self, driver: StartedDriver) -> bool:
        seen, living = self._look_for(driver)
        if living is None or not living.alive:
            return False
        if living.drain_requested_at is None:
            self._note_drain(seen)
        self._end_workload(seen, living)
        return True

    def _note_drain(self, seen: Observed) -> None:
        if seen.config_map is None:
            return
        metadata = seen.config_map["metadata"]
        note = {
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {DRAIN_REQUESTED_AT: self.clock().isoformat()},
        }
        self.api.patch(CONFIG_MAPS, metadata["name"], {"metadata": note})

    def _kill(self, driver: StartedDriver) -> bool:
        seen, living = self._look_for(driver)
        if living is None or not living.alive:
            return False
        pods = [*seen.stream_pods, *seen.job_pods]
        # The drain was recorded but never reached the pod, so it begins only now.
        was_lost = living.drain_requested_at is not None and not any(facts.is_leaving for facts in pods)
        if was_lost:
            self._note_drain(seen)
        self._end_workload(seen, living)
        for facts in pods:
            delete_pod(self.api, facts, None if was_lost else KILL_GRACE_SECONDS)
        return True

    def _put_away(self, driver: StartedDriver) -> bool:
        seen, ended = self._look_for(driver)
        if ended is None or ended.alive:
            return False
        want_no_pod(self.api, seen)
        return True

    def _end_workload(self, seen: Observed, living: StartedDriver) -> None:
        if living.mode == "stream":
            want_no_pod(self.api, seen)
        else:
            remove_jobs(self.api, seen, living.run_id)
