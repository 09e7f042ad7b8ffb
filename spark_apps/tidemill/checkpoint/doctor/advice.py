"""Advice: compare the measurements of the newest batches with the declaration. Pure.

Each rule names the key to change and, if it is known, the new value. No rule reports an error: the stream
works, but slower than necessary or later than declared. The rules are in `pace_advice.py`,
`capacity_advice.py` and `source_and_sink_advice.py`.

id              what
TIDE-TUNE-001   a batch takes longer than its trigger
TIDE-TUNE-002   the batch limit holds the stream back
TIDE-TUNE-003   it cannot keep up
TIDE-TUNE-004   without a limit, one batch has taken very long
TIDE-TUNE-005   fewer state partitions than cores
TIDE-TUNE-006   too many state partitions
TIDE-TUNE-007   fewer topic partitions than cores
TIDE-TUNE-008   the state takes much of the memory
TIDE-TUNE-009   planning and logs take most of a batch
TIDE-TUNE-010   rows are too late for the watermark
TIDE-TUNE-011   one sink takes most of a batch
TIDE-TUNE-012   one partition of a topic has most of the records
TIDE-TUNE-013   a table has many small files
TIDE-TUNE-014   the first batch of a driver has taken very long
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.checkpoint.doctor.capacity_advice import CAPACITY_RULES
from tidemill.checkpoint.doctor.measured import Measured
from tidemill.checkpoint.doctor.pace_advice import PACE_RULES
from tidemill.checkpoint.doctor.source_and_sink_advice import SOURCE_AND_SINK_RULES
from tidemill.checkpoint.findings import Finding, Severity

# All rules in the order of their ids, as in the table above.
RULES = tuple(
    sorted((*PACE_RULES, *CAPACITY_RULES, *SOURCE_AND_SINK_RULES), key=lambda rule: rule.finding_id)
)


def advice(measured: Measured) -> list[Finding]:
    """Return the findings about the measurements, in the order of the table."""
    return list(_found(measured))


def _found(measured: Measured) -> Iterator[Finding]:
    for rule in RULES:
        facts = rule.facts(measured)
        if facts is not None:
            severity: Severity = "warning" if rule.is_urgent(measured) else "note"
            # Measurements from before the last change of conf do not apply to the new conf, so show their
            # time.
            told = {**facts, "measured_at": measured.at}
            name, fix = measured.pipeline.name, rule.fix(measured)
            yield Finding(rule.finding_id, severity, name, rule.problem, told, fix, rule.runbook)
