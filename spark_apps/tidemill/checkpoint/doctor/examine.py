"""The doctor: examine every state folder of an environment. Never writes.

Pipelines come from conf, state folders from storage. A folder without a pipeline is orphaned; a pipeline
without a folder has never run. The gate is checked as before a start, but without the source, so the doctor
works without a broker and takes seconds for a thousand pipelines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tidemill.checkpoint.doctor.advice import advice
from tidemill.checkpoint.doctor.measured import Measured
from tidemill.checkpoint.doctor.read_measured import read_measured
from tidemill.checkpoint.doctor.rules import (
    DOCTOR_RUNBOOK,
    backup_findings,
    folder_findings,
    orphaned_folder,
    shared_queries,
)
from tidemill.checkpoint.doctor.state_growth import growth_findings
from tidemill.checkpoint.findings import Finding, Severity, worst_first
from tidemill.checkpoint.gate import examine as gate_findings
from tidemill.checkpoint.gate import gather_facts
from tidemill.checkpoint.reading.state_folder import StateFolder, read_state_folder
from tidemill.checkpoint.retention.clock import (
    SourceRetention,
    assumed_retention,
    clock_findings,
    of_table,
    shortest,
    shortest_of_brokers,
)
from tidemill.checkpoint.retention.policy import policy_findings, reach_findings
from tidemill.checkpoint.retention.rule import retention_of
from tidemill.checkpoint.retention.table_properties import read_table_retention
from tidemill.errors import SpecError, TidemillError
from tidemill.spec.project import Environment, Pipeline, resolve_pipeline
from tidemill.storage.store import Store

# Folders examined concurrently. Listings and table logs mostly wait for storage. On a local disk, more
# threads would only compete for the interpreter.
THREADS = 2 * (os.cpu_count() or 1)

REFUSED = "A start would be refused."

# Returns the retention of a Kafka pipeline's topics; None if the broker does not answer.
AskBroker = Callable[[Pipeline], SourceRetention | None]


def ask_nobody(_: Pipeline) -> SourceRetention | None:
    """Return None, so that the broker's default is assumed."""
    return None


@dataclass(frozen=True)
class Examination:
    """The doctor's result.

    Args:
        pipelines: Number of examined declared pipelines.
        folders: Number of examined state folders.
        findings: Findings, worst first.
    """

    pipelines: int
    folders: int
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """Return True if there is no error; warnings and notes are allowed."""
        return not any(finding.severity == "error" for finding in self.findings)


def examine(
    environment: Environment, names: Iterable[str] = (), ask_broker: AskBroker = ask_nobody
) -> Examination:
    """Examine all pipelines and state folders of an environment, or the named ones.

    Checkpoints that share a query are searched only among the examined ones.

    Raises:
        SpecError: TIDE-SPEC-010 or -011, for a name that neither conf nor storage knows.
    """
    root = environment.layout.root
    # Opening a store creates its folder, and the doctor creates nothing.
    store = Store(root) if "://" in root or Path(root).is_dir() else None
    declared = frozenset(environment.project.pipeline_names())
    stored = frozenset() if store is None else frozenset(store.list_names(environment.layout.states))
    for name in set(names) - declared - stored:
        environment.project.pipeline_file(name)
    chosen = sorted(set(names) or declared | stored)
    round_ = _Round(environment, store, declared, stored, ask_broker)
    with ThreadPoolExecutor(THREADS) as threads:
        looks = list(threads.map(round_.look, chosen))
    folders = [folder for folder, _ in looks if folder is not None]
    findings = [finding for _, found in looks for finding in found] + shared_queries(folders)
    return Examination(len(declared & set(chosen)), len(folders), tuple(worst_first(findings)))


@dataclass(frozen=True)
class Advised:
    """The measurements of one pipeline and the advice.

    Args:
        measured: Measurements; None if they cannot be read.
        findings: Advice only; it never refuses a start.
    """

    measured: Measured | None = None
    findings: tuple[Finding, ...] = ()


def advice_for(store: Store, environment: Environment, name: str) -> Advised:
    """Return the measurements and advice of one pipeline; empty if they cannot be read."""
    try:
        pipeline = resolve_pipeline(environment, name)
        folder = read_state_folder(store, environment.layout, name)
        measured = _measured(store, pipeline, folder)
        return Advised(measured, () if measured is None else tuple(_advice(store, folder, measured)))
    except TidemillError:
        return Advised()


@dataclass(frozen=True)
class _Round:
    """One examination, with the facts known before the first pipeline."""

    environment: Environment
    store: Store | None
    declared: frozenset[str]
    stored: frozenset[str]
    ask_broker: AskBroker

    def look(self, name: str) -> tuple[StateFolder | None, list[Finding]]:
        """Examine one pipeline; an error that stops the examination becomes a finding."""
        folder: StateFolder | None = None
        try:
            if self.store is not None and name in self.stored:
                folder = read_state_folder(self.store, self.environment.layout, name)
            if name not in self.declared:
                return folder, [] if folder is None else [orphaned_folder(folder)]
            pipeline = resolve_pipeline(self.environment, name)
            broker = shortest_of_brokers(pipeline, self.ask_broker)
            findings = policy_findings(pipeline, broker)
            if self.store is not None and folder is not None:
                findings += _state_findings(self.store, pipeline, folder, broker)
        except TidemillError as error:
            return folder, [_refused(name, error)]
        return folder, findings


def _state_findings(
    store: Store, pipeline: Pipeline, folder: StateFolder, broker: SourceRetention | None
) -> list[Finding]:
    now = datetime.now(UTC)
    severity: Severity = "warning" if pipeline.environment.spec.protected else "note"
    source = shortest(
        found for s in pipeline.streams.values() if (found := _source_retention(s, broker)) is not None
    )
    measured = _measured(store, pipeline, folder)
    return [
        *folder_findings(folder, now),
        *backup_findings(folder, now, severity),
        *reach_findings(folder, retention_of(pipeline.spec), now),
        *(clock_findings(folder, source, now) if source is not None else []),
        *_gate_findings(store, pipeline, folder),
        *(_advice(store, folder, measured) if measured is not None else []),
    ]


def _measured(store: Store, pipeline: Pipeline, folder: StateFolder) -> Measured | None:
    live = folder.live
    return None if live is None else read_measured(store, pipeline, live.path, live.commits)


def _advice(store: Store, folder: StateFolder, measured: Measured) -> list[Finding]:
    return [*growth_findings(store, folder, measured.pipeline.spec), *advice(measured)]


def _source_retention(pipeline: Pipeline, broker: SourceRetention | None) -> SourceRetention | None:
    """Return the retention of the source; None for sources that keep everything."""
    if pipeline.spec.source.is_kafka:
        hub = pipeline.spec.source.event_hub
        found = broker or assumed_retention(pipeline.spec)
        return replace(found, covered=hub is not None and hub.capture is not None)
    if pipeline.spec.source.delta is not None:
        table = read_table_retention(pipeline.layout.table(pipeline.spec.source.delta.table))
        return None if table is None else of_table(table)
    return None


def _gate_findings(store: Store, pipeline: Pipeline, folder: StateFolder) -> list[Finding]:
    """Return TIDE-CKPT-050 for each reason against a start, and the gate's warnings unchanged."""
    if not folder.history:
        return []
    try:
        found = gate_findings(gather_facts(store, pipeline, folder.history[0].generation))
    except TidemillError as error:
        return [_refused(pipeline.name, error)]
    return [_as_refusal(finding) if finding.severity == "error" else finding for finding in found]


def _as_refusal(finding: Finding) -> Finding:
    facts: Mapping[str, object] = {"cause": finding.finding_id, "reason": finding.problem, **finding.facts}
    return replace(finding, finding_id="TIDE-CKPT-050", problem=REFUSED, facts=facts)


def _refused(name: str, error: TidemillError) -> Finding:
    """Return a finding for the error: a wrong declaration, or an unreadable control file or checkpoint."""
    found = Finding(error.error_id, "error", name, error.problem, error.facts, error.fix, error.runbook)
    if isinstance(error, SpecError):
        return found
    return replace(_as_refusal(found), runbook=error.runbook or DOCTOR_RUNBOOK)
