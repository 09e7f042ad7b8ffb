"""`tidemill checkpoint gate`: check whether a pipeline may start, and show all reasons against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import print_json, say
from tidemill.errors import TidemillError
from tidemill.spec.readable import shown

if TYPE_CHECKING:
    from tidemill.checkpoint.findings import Finding
    from tidemill.checkpoint.gate import CheckpointFacts
    from tidemill.spec.project import Pipeline


@dataclass(frozen=True)
class Answer:
    """The answer of the gate.

    Args:
        facts: The facts that it examined.
        findings: Its findings, holds first.
        broker: Text that the broker was queried, or the reason why not.
        driver: Run id of the live driver, according to the runtime.
    """

    facts: CheckpointFacts
    findings: tuple[Finding, ...]
    broker: str
    driver: str | None

    @property
    def may_start(self) -> bool:
        """Return True if nothing forbids a start."""
        return all(finding.severity != "error" for finding in self.findings)


def add_to(group: typer.Typer) -> None:
    """Register the command."""
    group.command()(gate)


def gate(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Report whether a start would be refused, and why, without changing anything. Exit code 1 if refused."""
    invocation = invocation_of(context)
    answer = ask(invocation, invocation.pipeline(pipeline))
    if as_json:
        print_json(_document(answer))
    else:
        for line in _lines(answer):
            say(invocation.completed(line))
    if not answer.may_start:
        raise typer.Exit(1)


def ask(invocation: Invocation, pipeline: Pipeline) -> Answer:
    """Gather the facts that a driver would examine, and decide."""
    from tidemill.checkpoint.current import read_current
    from tidemill.checkpoint.gate import examine, gather_facts
    from tidemill.checkpoint.gate.alive import holds_on
    from tidemill.checkpoint.holds import read_holds
    from tidemill.names import FIRST_GENERATION
    from tidemill.storage.store import Store

    store, layout = Store(pipeline.layout.root), pipeline.layout
    current = read_current(store, layout, pipeline.name)
    facts = gather_facts(store, pipeline, FIRST_GENERATION if current is None else current.generation)
    facts, broker = _with_broker(facts, pipeline)
    holds = holds_on(pipeline.name, read_holds(store, layout, pipeline.name))
    running = invocation.control_plane().running(pipeline.name)
    return Answer(facts, (*holds, *examine(facts)), broker, None if running is None else running.run_id)


def _with_broker(facts: CheckpointFacts, pipeline: Pipeline) -> tuple[CheckpointFacts, str]:
    """Add the broker's topics to the facts.

    A broker that does not answer, or whose secret only drivers have, is not a reason to refuse.
    """
    if not any(stream.source.is_kafka for stream in pipeline.spec.streams.values()):
        return facts, "not needed"
    from tidemill.sources.topic_facts import with_topics

    try:
        return with_topics(facts, pipeline), "asked"
    except TidemillError as error:
        return facts, f"not asked: {error.error_id} {error.problem}"


def _document(answer: Answer) -> dict[str, Any]:
    facts = answer.facts
    return {
        "pipeline": facts.pipeline,
        "may_start": answer.may_start,
        "generation": facts.generation,
        "planned_batch": facts.planned,
        "committed_batch": facts.committed,
        "tables": {table: found.last_batch for table, found in facts.tables.items()},
        "broker": answer.broker,
        "running_driver": answer.driver,
        "findings": [finding.document() for finding in answer.findings],
    }


def _lines(answer: Answer) -> Iterable[str]:
    facts = answer.facts
    for finding in answer.findings:
        told = (f"{n}={shown(v)}" for n, v in finding.facts.items() if n not in ("pipeline", "generation"))
        yield f"{finding.severity}  {finding.finding_id}  {finding.problem}"
        yield f"  {' '.join(told)}"
        yield f"  To fix: {finding.fix}"
        yield f"  Runbook: {finding.runbook}"
    if answer.broker.startswith("not asked"):
        yield f"The broker was {answer.broker}"
    if answer.driver is not None:
        yield f"A driver runs: {answer.driver}"
    verdict = "may start" if answer.may_start else "must not start"
    stands = "has never run" if facts.planned is None else f"batch {facts.planned} planned"
    done = "" if facts.planned is None else f", {shown(facts.committed) or 'none'} finished"
    yield f"{facts.pipeline} {verdict}: {facts.generation} {stands}{done}"
