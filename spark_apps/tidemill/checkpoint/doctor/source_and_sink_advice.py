"""Advice on sources, sinks and tables: late or uneven rows, slow sinks, small files. Pure."""

from __future__ import annotations

from tidemill.airflow_names import TABLE_MAINTENANCE_DAG_ID
from tidemill.checkpoint.doctor.advice_rule import MOST, Facts, Rule
from tidemill.checkpoint.doctor.measured import Measured, words_of
from tidemill.checkpoint.doctor.measured_table import MANY_SMALL_FILES, MeasuredTable
from tidemill.spec.readable import readable_size

# Share of dropped rows at which a watermark is too short for its data.
DROPPED_SHARE = 0.01


def _dropped(m: Measured) -> Facts | None:
    dropped, rows = sum(batch.dropped for batch in m.batches), sum(batch.rows for batch in m.batches)
    if not m.is_enough or dropped < DROPPED_SHARE * rows:
        return None
    return {"dropped_rows": dropped, "rows": rows, "batches": len(m.batches)}


def _slow_sink(m: Measured) -> Facts | None:
    sink = m.slowest_sink
    if not m.is_pressed or sink is None or sink.share < MOST:
        return None
    return {
        "sink": sink.name,
        "of_a_batch": f"{sink.share:.0%}",
        "sink_time": words_of(sink.milliseconds),
        "batch": words_of(m.milliseconds),
        "with_reading": "yes" if sink.reads else "no",
    }


def _skewed(m: Measured) -> Facts | None:
    skew = next((topic.skew for topic in m.topics if topic.skew is not None), None)
    if skew is None or (m.splits_partitions and not _is_skew_felt(m)):
        return None
    return {
        "topic": skew.topic,
        "partition": skew.partition,
        "partitions": skew.partitions,
        f"{skew.what}_of_it": skew.records,
        f"{skew.what}_of_all": skew.of_all,
    }


def _is_skew_felt(m: Measured) -> bool:
    return m.is_pressed or m.falls_behind


def _even_out(m: Measured) -> str:
    split = (
        ""
        if m.splits_partitions
        else f"`options: {{minPartitions: {2 * m.cores}}}` of the source lets several "
        "tasks read one partition; "
    )
    return f"{split}the lasting cure is the producer's: a key with more values, or none"


def _small_files(m: Measured) -> Facts | None:
    table = _most_small(m)
    if table is None or table.small < MANY_SMALL_FILES:
        return None
    return {
        "table": table.name,
        "files": table.files,
        "small_files": table.small,
        "mean_size": readable_size(table.small_bytes // table.small),
    }


def _most_small(m: Measured) -> MeasuredTable | None:
    return max(m.tables, key=lambda table: table.small, default=None)


def _put_together(m: Measured) -> str:
    table = _most_small(m)
    assert table is not None  # noqa: S101  # it was found
    longer = f"a longer `run.trigger` than {words_of(m.trigger)} makes fewer and larger ones"
    fewer = f"; {longer}" if m.trigger else ""
    if table.left:
        return f"OPTIMIZE it by Spark (maintenance {table.left}){fewer}"
    return (
        f"tidemill table maintain {table.name} --apply, or each day the DAG {TABLE_MAINTENANCE_DAG_ID}{fewer}"
    )


SOURCE_AND_SINK_RULES = (
    Rule(
        "TIDE-TUNE-010",
        "Rows come too late for the watermark and are dropped.",
        _dropped,
        lambda _: "raise `event_time.watermark`, or keep them aside with `event_time.late: table`",
    ),
    Rule(
        "TIDE-TUNE-011",
        "Batches take their whole time budget, and most of it is for one sink.",
        _slow_sink,
        lambda _: (
            "make the sink take more rows at once, or give it a pipeline of its own that reads the table"
        ),
        runbook="slow-sink",
    ),
    Rule(
        "TIDE-TUNE-012",
        "One partition of a topic has most of the records; a batch takes as long as its largest partition.",
        _skewed,
        _even_out,
        _is_skew_felt,
        "skewed-source",
    ),
    Rule(
        "TIDE-TUNE-013",
        "A table has many small files, each of which whoever reads it must open.",
        _small_files,
        _put_together,
        lambda _: False,
    ),
)
