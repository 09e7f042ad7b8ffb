"""The gate check of a driver before each start of its query, also after a source was unavailable."""

from __future__ import annotations

from dataclasses import replace

import structlog

from tidemill.checkpoint.current import begin_anew, read_or_create_current
from tidemill.checkpoint.gate import CheckpointFacts, check, check_holds, examine, gather_facts
from tidemill.engine.run_context import RunContext
from tidemill.names import SOURCE_NAME
from tidemill.sources.topic_facts import with_topics
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

log = structlog.get_logger()


def admit(run: RunContext) -> RunContext:
    """Run the gate with facts from the broker; return the run with the topics' ids, for the ledger.

    The driver has claimed its epoch before. Older drivers therefore begin no batch any more, so the checked
    facts cannot change.

    Raises:
        GateRefusedError: The reason why the query must not start.
        UnavailableError: If no broker answers.
    """
    check_holds(run.store, run.pipeline.layout, run.pipeline.name, run.own_hold)
    if run.mode == "backfill":
        return run
    facts = gather_facts(run.store, run.pipeline, run.generation)
    # The mode may differ from the declared one, because an operator can run a pipeline in the other mode.
    trigger = run.pipeline.spec.run.trigger_of(run.mode)
    facts = replace(facts, declared=replace(facts.declared, trigger=trigger))
    # Problems that storage shows are refused even while the broker is unavailable.
    check(facts)
    facts = with_topics(facts, run.pipeline)
    check(facts)
    _say(run, facts)
    told = {stream.stream or SOURCE_NAME: stream.source.topics for stream in facts.each_stream()}
    topics = {name: topics for name, topics in told.items() if topics is not None}
    return replace(run, topics=topics, written_by=facts.code if facts.state.operators else "")


def generation_to_run(store: Store, pipeline: Pipeline) -> str:
    """Return the checkpoint generation of the next start: a new one if the source cannot be read again."""
    begin = read_or_create_current if pipeline.spec.is_replayable else begin_anew
    return begin(store, pipeline.layout, pipeline.name).generation


def _say(run: RunContext, facts: CheckpointFacts) -> None:
    """Log the findings that do not forbid the start."""
    # The status document already belongs to this driver.
    mine = facts.last_driver is not None and facts.last_driver.run_id == run.run_id
    for finding in examine(replace(facts, last_driver=None) if mine else facts):
        told = {name: value for name, value in finding.facts.items() if name != "pipeline"}
        log.warning(
            "gate", finding=finding.finding_id, pipeline=facts.pipeline, problem=finding.problem, **told
        )
