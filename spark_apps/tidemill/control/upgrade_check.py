"""The upgrade gate: may the declared version of a pipeline take over from the checkpoint as it stands?

1. The gate's own questions, to declaration, checkpoint, tables and source. 2. Spark plans the new version, in
a process of its own where drivers run, with the image that is wanted now. 3. Its state against the
checkpoint's. The running driver is not touched. Nothing is written but the part's answer, and what the
operators of the version mean, so that the gate knows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tidemill import __version__
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate import CheckpointFacts, examine, gather_facts
from tidemill.checkpoint.gate.alive import holds_on
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.upgrade.compare import UpgradeFacts, compare
from tidemill.checkpoint.upgrade.verdict import TO_ACCEPT, Verdict, verdict_of
from tidemill.checkpoint.upgrade.version import (
    KeptState,
    PlannedVersion,
    keep_meanings,
    kept_in,
    read_meanings,
)
from tidemill.control.plane import ControlPlane
from tidemill.control.spark_part import begin_part, forget_part, result_of_part, run_part
from tidemill.errors import GateRefusedError, TidemillError, UnavailableError
from tidemill.ledger.code import code_of
from tidemill.names import FIRST_GENERATION
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Looks that may find the checkpoint and the table at different batches, because the driver commits between
# reading one and the other. A look takes some 100 ms; a driver that commits in each of five is one that the
# next visit finds at rest.
LOOKS = 5

PART = "planned_version"


@dataclass(frozen=True)
class Standing:
    """Where a pipeline stands.

    Args:
        facts: What the gate knows; None if a file is such that nothing is.
        findings: What it says of the declared version.
        kept: State of the checkpoint.
    """

    facts: CheckpointFacts | None
    findings: tuple[Finding, ...]
    kept: tuple[KeptState, ...]

    @property
    def code(self) -> str:
        """Digest of the code that wrote the newest batch; empty if no table says."""
        return "" if self.facts is None else self.facts.code

    @property
    def has_begun(self) -> bool:
        """Whether there is a batch to go on from."""
        return self.facts is not None and self.facts.planned is not None


def check_upgrade(plane: ControlPlane, pipeline: Pipeline) -> Verdict:
    """The verdict; waits for Spark, some 15 seconds.

    Raises:
        UnavailableError: If storage or the place of drivers does not answer, so that nobody knows.
    """
    standing = standing_of(plane.store, pipeline)
    if not _needs_plan(pipeline, standing):
        return verdict_of(standing.findings)
    try:
        answer = run_part(plane, pipeline, PART, plan_arguments(pipeline))
    except UnavailableError:
        raise
    except TidemillError as error:
        return verdict_of([*standing.findings, _as_finding(pipeline, error)])
    return judge(plane.store, pipeline, standing, PlannedVersion.model_validate(answer))


def check_state(plane: ControlPlane, pipeline: Pipeline) -> None:
    """Let the declared version take over the state, or refuse; waits for Spark.

    Raises:
        GateRefusedError: The worst of the verdict, unless it can be accepted.
    """
    objection = check_upgrade(plane, pipeline).objection
    if objection is not None and objection.finding_id != TO_ACCEPT:
        raise objection.as_error()


def verdict_so_far(plane: ControlPlane, pipeline: Pipeline) -> Verdict | None:
    """The verdict without waiting; None if Spark must plan the version first (`begin_planning`).

    Raises:
        UnavailableError: If storage does not answer, so that nobody knows.
    """
    standing = standing_of(plane.store, pipeline)
    verdict = verdict_of(standing.findings)
    if verdict.objection is not None or not _needs_plan(pipeline, standing):
        return verdict
    result = result_of_part(plane, pipeline, PART, plan_arguments(pipeline))
    if result is None:
        return None
    try:
        planned = PlannedVersion.model_validate(result.answer_or_raise())
    except UnavailableError:
        return None
    except TidemillError as error:
        return verdict_of([*standing.findings, _as_finding(pipeline, error)])
    return judge(plane.store, pipeline, standing, planned)


def begin_planning(plane: ControlPlane, pipeline: Pipeline, *, again: bool = False) -> None:
    """Have Spark plan the version, where drivers run; nobody waits for it. `again` as of `begin_part`.

    Raises:
        TidemillError: Why it could not be begun, or was cut short.
    """
    begin_part(plane, pipeline, PART, plan_arguments(pipeline), again=again)


def renew_planning(plane: ControlPlane, pipeline: Pipeline) -> None:
    """Forget that Spark could not plan the version: somebody asks anew."""
    arguments = plan_arguments(pipeline)
    result = result_of_part(plane, pipeline, PART, arguments)
    if result is not None and result.error is not None:
        forget_part(plane, pipeline, PART, arguments)


def _needs_plan(pipeline: Pipeline, standing: Standing) -> bool:
    """Whether there is state, or could be: without a transform nothing is kept from batch to batch."""
    return bool(standing.kept) or pipeline.spec.transform is not None


def plan_arguments(pipeline: Pipeline) -> list[str]:
    """Name the version that is planned: the answer for another one is never taken for this one's."""
    kubernetes = pipeline.environment.spec.kubernetes
    image = "" if kubernetes is None else kubernetes.image
    return ["--definition", pipeline.definition_digest, "--release", __version__, "--image", image]


def judge(store: Store, pipeline: Pipeline, standing: Standing, planned: PlannedVersion) -> Verdict:
    """The verdict about a planned version; notes what its operators mean."""
    code = code_of(pipeline).digest
    if not standing.has_begun:
        return verdict_of(standing.findings)
    noted = pipeline.layout.meanings(pipeline.name, standing.code or "unknown")
    meant = read_meanings(store, noted, planned.spark)
    is_new_code = standing.code != code
    if is_new_code:
        keep_meanings(store, pipeline.layout.meanings(pipeline.name, code), planned)
    facts = UpgradeFacts(pipeline.name, standing.kept, planned, meant, is_new_code)
    known = {finding.finding_id for finding in standing.findings}
    if "TIDE-CKPT-026" in known:
        # Of a number of partitions the gate has the declaration's word already.
        known.add("TIDE-CTRL-084")
    found = [finding for finding in compare(facts) if finding.finding_id not in known]
    return verdict_of([*standing.findings, *found])


def standing_of(store: Store, pipeline: Pipeline) -> Standing:
    """Where the pipeline stands; a driver moves on meanwhile, and one look without an objection counts."""
    current = read_current(store, pipeline.layout, pipeline.name)
    generation = FIRST_GENERATION if current is None else current.generation
    look = partial(_look, store, pipeline, generation)
    for _ in range(LOOKS - 1):
        standing = look()
        if all(finding.severity != "error" for finding in standing.findings):
            return standing
    return look()


def _look(store: Store, pipeline: Pipeline, generation: str) -> Standing:
    holds = holds_on(pipeline.name, read_holds(store, pipeline.layout, pipeline.name))
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, generation))
    try:
        # The driver that runs is the one that would be drained first.
        facts = replace(gather_facts(store, pipeline, generation), last_driver=None)
    except GateRefusedError as error:
        return Standing(None, (*holds, _as_finding(pipeline, error)), ())
    return Standing(facts, (*holds, *examine(facts)), kept_in(reader))


def _as_finding(pipeline: Pipeline, error: TidemillError) -> Finding:
    """Why the new version cannot be had at all."""
    return Finding(
        error.error_id, "error", pipeline.name, error.problem, error.facts, error.fix, error.runbook
    )
