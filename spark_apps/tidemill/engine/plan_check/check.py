"""The check of a transform's result before anything is started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tidemill.backfill.plan_tree import Node, tree
from tidemill.backfill.row_origin import EventWindow
from tidemill.engine.plan_check.analysed import plan_of, root_of, text_of
from tidemill.engine.plan_check.call_sites import CallSites
from tidemill.engine.plan_check.late_rules import late_findings
from tidemill.engine.plan_check.spark_checker import ask_spark
from tidemill.engine.plan_check.stream_rules import (
    brings_together,
    endless_runs,
    needing_rocksdb,
    own_findings,
    with_unbounded_state,
)
from tidemill.engine.plan_check.unbatched_rules import unbatched_findings
from tidemill.errors import SpecError
from tidemill.names import SOURCE_NAME
from tidemill.spec.project import Pipeline
from tidemill.spec.transform_rules import Rule

# Maximum size of the plans that are read to find a line, in characters: a few seconds, for a transform with a
# hundred steps. Beyond it the error names no line.
MOST_READ = 20_000_000


@dataclass(frozen=True)
class Finding:
    """A finding in a transform.

    Args:
        rule: The rule: refusal or warning, the reason, and the alternative.
        error: The error of the rule with facts.
    """

    rule: Rule
    error: SpecError


def check_stream(
    pipeline: Pipeline,
    rows: Mapping[str, DataFrame],
    result: DataFrame,
    calls: CallSites,
    window: EventWindow | None = None,
) -> list[Finding]:
    """Check the result of a transform by Spark's and Tidemill's rules. Start and read nothing.

    Refusals come first.

    Args:
        pipeline: Pipeline of the transform.
        rows: Input of the transform, streams by name.
        result: Output of the transform.
        calls: Recorded calls of the transform.
        window: The proven event-time windows of its rows, if any.
    """
    given = {name: root_of(stream) for name, stream in rows.items()}
    root = root_of(result)
    mode = pipeline.spec.output_mode
    refused = ask_spark(result, root, mode)
    found: list[tuple[Rule, str, Node | None]] = []
    if refused is not None:
        found.append((refused.rule, refused.reason, refused.node))
    seen = {rule for rule, *_ in found}
    own = own_findings(given, root, plan_of(result), mode, result.sparkSession)
    if pipeline.spec.run.accepts_unbounded_state:
        own = with_unbounded_state(own)
    if pipeline.spec.run.mode == "incremental":
        own += endless_runs(root, plan_of(result))
    if pipeline.spec.run.state_store == "memory":
        own += needing_rocksdb(root)
    own += unbatched_findings(pipeline.spec, result, root)
    if pipeline.spec.leaves_out_poison:
        own += brings_together(root)
    found += [(rule, detail, node) for rule, detail, node in own if rule not in seen]
    if pipeline.spec.keeps_late:
        # The declaration allows `late: table` only with one stream.
        found += late_findings(given[SOURCE_NAME], root, pipeline.spec.source.is_kafka, window)
    findings = [_finding(pipeline, *one, calls) for one in found]
    return sorted(findings, key=lambda finding: finding.rule.warns)


def refuse_or_warn(findings: list[Finding]) -> list[Finding]:
    """Return the findings, which are only warnings.

    Raises:
        SpecError: TIDE-PLAN-…, the first refusal.
    """
    for finding in findings:
        if not finding.rule.warns:
            raise finding.error
    return findings


def _finding(pipeline: Pipeline, rule: Rule, reason: str, node: Node | None, calls: CallSites) -> Finding:
    place = None if node is None else _place_of(node, calls)
    facts: dict[str, object] = {"pipeline": pipeline.name, "transform": pipeline.spec.transform or "none"}
    if place is not None:
        facts["file"] = place
    facts |= {"output_mode": pipeline.spec.output_mode, "reason": reason}
    return Finding(rule, rule.refusal(facts))


def _place_of(node: Node, calls: CallSites) -> str | None:
    """Return the line of the call that created an operation: the first whose result contains the operation.

    None if no result contains it, e.g. because Spark has renumbered the columns. A line is named only if it
    is certain.
    """
    read = 0
    for made in calls.made:
        plan = text_of(made.frame)
        read += len(plan)
        if read > MOST_READ:
            return None
        if any(below == node for below in tree(json.loads(plan)).walk()):
            return made.place
    return None
