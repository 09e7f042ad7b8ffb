"""The control plane's metrics, from the content of storage. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from tidemill import metrics
from tidemill.checkpoint.retention.clock import level_of, time_to_data_loss
from tidemill.checkpoint.status import Status
from tidemill.control.decide.reconcile_record import ReconcileRecord, StreamRecord
from tidemill.engine.driver_metrics import DriverFacts, driver_samples
from tidemill.engine.liveness import alive
from tidemill.metrics import Metric, Sample
from tidemill.observe.airflow_health import ComponentHealth
from tidemill.observe.snapshot import PipelineSeen, Snapshot


def without_removed(snapshot: Snapshot, declared: Collection[str]) -> Snapshot:
    """Return the snapshot without pipelines that are neither declared nor have a driver.

    Metrics of such pipelines would require no action.
    """

    def exists(seen: PipelineSeen) -> bool:
        has_driver = seen.status is not None and _may_live(seen.status, snapshot.ended_at)
        return seen.pipeline in declared or has_driver or not seen.readable

    return replace(snapshot, pipelines=tuple(filter(exists, snapshot.pipelines)))


def control_samples(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield all metrics of the control plane and of pipelines, running or not."""
    yield Sample(metrics.SNAPSHOT_AT, snapshot.ended_at.timestamp(), ())
    yield Sample(metrics.SNAPSHOT_SECONDS, (snapshot.ended_at - snapshot.began_at).total_seconds(), ())
    yield Sample(metrics.UNREADABLE, sum(not seen.readable for seen in snapshot.pipelines), ())
    if snapshot.reconciliation is not None:
        yield from _reconciliation(snapshot.reconciliation)
    states = Counter(seen.status.state for seen in snapshot.pipelines if seen.status is not None)
    for state, number in sorted(states.items()):
        yield Sample(metrics.STREAMS, number, (state,))
    for seen in snapshot.pipelines:
        yield from _pipeline(seen, snapshot.ended_at)


def local_driver_samples(snapshot: Snapshot) -> Iterator[Sample]:
    """Yield the metrics of each running driver, because local drivers have no metrics port."""
    for seen in snapshot.pipelines:
        status = seen.status
        if status is not None and _may_live(status, snapshot.ended_at):
            yield from driver_samples(DriverFacts(status, status.updated_at, seen.query))


def airflow_samples(components: tuple[ComponentHealth, ...]) -> Iterator[Sample]:
    """Yield the health of Airflow's components."""
    for component in components:
        yield Sample(metrics.AIRFLOW_HEALTHY, component.healthy, (component.name,))
        if component.heartbeat is not None:
            yield Sample(metrics.AIRFLOW_HEARTBEAT, component.heartbeat.timestamp(), (component.name,))


def _may_live(status: Status, now: datetime) -> bool:
    """Return True if a driver that has not reported its end may live; a killed one cannot report it."""
    trigger = None if status.trigger_seconds is None else timedelta(seconds=status.trigger_seconds)
    ended = status.state in ("stopped", "failed")
    return not ended and alive(status.state, now - status.updated_at, trigger).good


def _pipeline(seen: PipelineSeen, now: datetime) -> Iterator[Sample]:
    of_pipeline = (seen.pipeline,)
    if seen.readable:
        yield Sample(metrics.HOLDS, seen.holds, of_pipeline)
    if seen.status is None:
        return
    kept, left = seen.status.source_retention_seconds, time_to_data_loss(seen.status, now)
    if kept is not None:
        yield Sample(metrics.RETENTION, kept, of_pipeline)
    if kept is not None and left is not None:
        yield Sample(metrics.DATA_LOSS, left, of_pipeline)
        yield Sample(metrics.DATA_LOSS_LEVEL, 1, (seen.pipeline, level_of(left, kept)))


def _reconciliation(record: ReconcileRecord) -> Iterator[Sample]:
    yield Sample(metrics.RECONCILED_AT, record.ended_at.timestamp(), ())
    yield Sample(metrics.RECONCILE_SECONDS, (record.ended_at - record.began_at).total_seconds(), ())
    for action, number in sorted(Counter(stream.action for stream in record.streams.values()).items()):
        yield Sample(metrics.DECISIONS, number, (action,))
    for name, stream in sorted(record.streams.items()):
        yield Sample(metrics.DECISION, 1, (name, stream.action))
        for metric, value in _of_stream(stream):
            yield Sample(metric, value, (name,))


def _of_stream(stream: StreamRecord) -> Iterator[tuple[Metric, float]]:
    # A stream that could not be observed has no values, because silence does not mean "down".
    if stream.wanted is None:
        return
    yield metrics.WANTED, stream.wanted
    yield metrics.RUNNING, stream.running
    yield metrics.STALLED, stream.stalled
    yield metrics.CRASHES, stream.crashes
    if stream.budget is not None:
        yield metrics.BUDGET_LEFT, max(0, stream.budget - stream.crashes)
