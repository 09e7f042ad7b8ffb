"""The upgrade gate: check if the declared version of a pipeline can continue from the current checkpoint.

1. Run the gate's checks of declaration, checkpoint, tables and source. 2. Let Spark plan the new version, in
a separate process where drivers run, with the desired image. 3. Compare its state with the checkpoint's. The
running driver is not touched. Only the answer of the Spark job and the meanings of the version's operators
are written, for the gate.
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

# Maximum tries to read checkpoint and table at the same batch, because the driver may commit in between. A
# try takes some 100 ms. If the driver commits during each of five tries, the next visit tries again.
LOOKS = 5

PART = "planned_version"


@dataclass(frozen=True)
class Standing:
    """State of a pipeline for the gate.

    Args:
        facts: The gate's facts; None if an unreadable file prevents gathering them.
        findings: The gate's findings about the declared version.
        kept: State in the checkpoint.
    """

    facts: CheckpointFacts | None
    findings: tuple[Finding, ...]
    kept: tuple[KeptState, ...]

    @property
    def code(self) -> str:
        """Return the digest of the code that wrote the newest batch; empty if no table records it."""
        return "" if self.facts is None else self.facts.code

    @property
    def has_begun(self) -> bool:
        """Return True if there is a batch to continue from."""
        return self.facts is not None and self.facts.planned is not None


def check_upgrade(plane: ControlPlane, pipeline: Pipeline) -> Verdict:
    """Return the verdict; waits for Spark, some 15 seconds.

    Raises:
        UnavailableError: If storage or the runtime does not answer, so that the verdict is unknown.
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
    """Raise unless the declared version can take over the state; waits for Spark.

    Raises:
        GateRefusedError: The worst finding of the verdict, unless it can be accepted.
    """
    objection = check_upgrade(plane, pipeline).objection
    if objection is not None and objection.finding_id != TO_ACCEPT:
        raise objection.as_error()


def verdict_so_far(plane: ControlPlane, pipeline: Pipeline) -> Verdict | None:
    """Return the verdict without waiting; None if Spark must first plan the version (`begin_planning`).

    Raises:
        UnavailableError: If storage does not answer, so that the verdict is unknown.
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
    """Let Spark plan the version where drivers run, without waiting. `again` as in `begin_part`.

    Raises:
        TidemillError: Reason why planning could not start, or was interrupted.
    """
    begin_part(plane, pipeline, PART, plan_arguments(pipeline), again=again)


def renew_planning(plane: ControlPlane, pipeline: Pipeline) -> None:
    """Delete a failed result of planning, because a new request repeats it."""
    arguments = plan_arguments(pipeline)
    result = result_of_part(plane, pipeline, PART, arguments)
    if result is not None and result.error is not None:
        forget_part(plane, pipeline, PART, arguments)


def _needs_plan(pipeline: Pipeline, standing: Standing) -> bool:
    """Return True if there is or could be state; without a transform, batches share no state."""
    return bool(standing.kept) or pipeline.spec.transform is not None


def plan_arguments(pipeline: Pipeline) -> list[str]:
    """Return arguments that identify the planned version, so that no other version's answer is used."""
    kubernetes = pipeline.environment.spec.kubernetes
    image = "" if kubernetes is None else kubernetes.image
    return ["--definition", pipeline.definition_digest, "--release", __version__, "--image", image]


def judge(store: Store, pipeline: Pipeline, standing: Standing, planned: PlannedVersion) -> Verdict:
    """Return the verdict about a planned version, and store the meanings of its operators."""
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
        # The gate has already reported the changed number of partitions.
        known.add("TIDE-CTRL-084")
    found = [finding for finding in compare(facts) if finding.finding_id not in known]
    return verdict_of([*standing.findings, *found])


def standing_of(store: Store, pipeline: Pipeline) -> Standing:
    """Return the state of the pipeline; the driver continues, and one try without an objection counts."""
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
        # The running driver will be drained first.
        facts = replace(gather_facts(store, pipeline, generation), last_driver=None)
    except GateRefusedError as error:
        return Standing(None, (*holds, _as_finding(pipeline, error)), ())
    return Standing(facts, (*holds, *examine(facts)), kept_in(reader))


def _as_finding(pipeline: Pipeline, error: TidemillError) -> Finding:
    """Return the reason why the new version cannot be planned, as a finding."""
    return Finding(
        error.error_id, "error", pipeline.name, error.problem, error.facts, error.fix, error.runbook
    )
