"""Transforms that a stream cannot run, or runs wrongly: refused before a query is started, with their line.

A line is counted from the first one of the body.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.transform_corpus import FIRST_LINE, OTHERS, QUERY, STATIC, findings_of, pipeline_with
from tidemill.engine.analyse import analyse
from tidemill.engine.plan_check.check import refuse_or_warn
from tidemill.errors import SpecError, TidemillError


def refusal_of(pipeline: LakePipeline) -> TidemillError:
    with pytest.raises(TidemillError) as refused:
        refuse_or_warn(findings_of(pipeline))
    return refused.value


def place(error: TidemillError) -> int | None:
    """Return the line of the corpus' file that an error names."""
    if "file" not in error.facts:
        return None
    file, _, line = str(error.facts["file"]).rpartition(":")
    assert Path(file).name == "readings.py"
    return int(line) - FIRST_LINE + 1


# Body, mode of the table, id, line of the body, a word of the alternative.
REFUSED_WITH_EVENT_TIME = [
    ("return rows.orderBy('id')", "append", "010", 1, "replace"),
    (
        "latest = rows.select('id', 'at')\nlatest = latest.sort('at')\nreturn latest",
        "append",
        "010",
        2,
        "sort",
    ),
    (
        "return (\n    rows.where('id > 1')\n    .orderBy('id')\n    .select('id')\n)",
        "append",
        "010",
        3,
        "read",
    ),
    ("return rows.groupBy('device').count().orderBy('count')", "merge", "010", 1, "replace"),
    ("return rows.limit(3)", "merge", "011", 1, "limit"),
    ("return rows.offset(3)", "append", "011", 1, "limit"),
    ("return rows.distinct().dropDuplicates(['id'])", "append", "012", 1, "merge"),
    ("return rows.dropDuplicates(['id'])", "append", "012", 1, "dropDuplicatesWithinWatermark"),
    ("return rows.select('device').distinct()", "append", "012", 1, "timestamp"),
    (
        "rows.createOrReplaceTempView('r')\nreturn rows.sparkSession.sql('SELECT DISTINCT id FROM r')",
        "append",
        "012",
        2,
        "dropDuplicates",
    ),
    (f"{QUERY}'SELECT DISTINCT id, date(at) FROM r')", "append", "012", 2, "timestamp"),
    ("return rows.groupBy('device').count()", "append", "013", 1, "window"),
    ("return rows.groupBy(F.date_trunc('hour', 'at')).count()", "append", "013", 1, "merge"),
    (
        "counts = rows.groupBy(MINUTES, 'device').count()\n"
        "hours = F.window(F.window_time('window'), '1 hour')\n"
        "return counts.groupBy(hours, 'device').sum('count')",
        "merge",
        "014",
        3,
        "append",
    ),
    ("return rows.where('id > 1')", "replace", "015", None, "aggregate"),
    (f"{OTHERS}\nreturn rows.join(others, F.expr('id = other'))", "append", "016", 2, "BETWEEN"),
    (
        f"{OTHERS}\nreturn rows.join(others, F.expr('id = other AND at >= later'))",
        "append",
        "016",
        2,
        "INTERVAL",
    ),
    (
        f"{OTHERS}\nreturn rows.join(others, F.expr('id = other')).where('at >= later')",
        "append",
        "016",
        2,
        "INTERVAL",
    ),
    (
        f"{OTHERS}\njoined = rows.join(others, F.expr('id = other'))\n"
        "return joined.groupBy('at', 'id').agg(F.max('later').alias('later')).where(TIMES[15:])",
        "append",
        "016",
        2,
        "BETWEEN",
    ),
    (
        f"{OTHERS}\nclose = rows.join(others, F.expr('id = other')).where(TIMES)\n"
        "return close.drop('other', 'later').join(others, F.expr('id = other'))",
        "append",
        "016",
        3,
        "BETWEEN",
    ),
    (f"{OTHERS}\nreturn rows.join(others, F.expr('id = other'), 'left')", "append", "016", 2, "window"),
    (
        f"{OTHERS}\nreturn rows.join(others, F.expr('id = other'), 'left').where(TIMES)",
        "append",
        "016",
        2,
        "window",
    ),
    (f"{OTHERS}\nreturn rows.join(others, F.expr('id = other'), 'left_semi')", "append", "016", 2, "BETWEEN"),
    (f"{OTHERS}\nreturn rows.join(others, F.expr(TIMES), 'left')", "merge", "017", 2, "append"),
    (f"{OTHERS}\nreturn rows.join(others, F.expr(TIMES), 'left_anti')", "append", "018", 2, "IS NULL"),
    (f"{STATIC}\nreturn rows.join(devices, 'device', 'right')", "append", "018", 2, "left"),
    (f"{STATIC}\nreturn rows.join(devices, 'device', 'full')", "append", "018", 2, "left"),
    ("return rows.intersect(rows.where('id > 1'))", "append", "019", 1, "left_semi"),
    ("return rows.exceptAll(rows.where('id > 1'))", "append", "019", 1, "join"),
    (
        "newest = Window.partitionBy('device').orderBy('at')\n"
        "return rows.withColumn('n', F.row_number().over(newest))",
        "append",
        "020",
        2,
        "max_by",
    ),
    ("return rows.groupBy(MINUTES).agg(F.countDistinct('id'))", "append", "021", 1, "approx_count_distinct"),
    (
        "return rows.groupBy(F.session_window('at', '5 minutes'), 'device').count()",
        "merge",
        "022",
        1,
        "append",
    ),
    ("return rows.sample(0.1)", "append", "023", 1, "xxhash64"),
    ("return rows.groupBy('device').pivot('id').count()", "append", "024", 1, "count(when"),
    ("return rows.withColumn('x', F.rand())", "append", "025", 1, "xxhash64"),
    ("return rows.withColumn('x', F.input_file_name())", "append", "035", 1, "folders say"),
    (
        "kept = rows.where('id > 1')\nreturn kept.where('rand(42) < 0.5').select('id')",
        "append",
        "025",
        2,
        "sha2",
    ),
    ("return rows.select('id', F.expr('uuid()').alias('u'))", "append", "025", 1, "kafka_offset"),
    ("return rows.withColumn('x', F.shuffle(F.array('id', 'value')))", "append", "025", 1, "record"),
    ("return rows.withColumn('x', F.monotonically_increasing_id())", "append", "025", 1, "kafka_offset"),
    ("return rows.withColumn('x', F.spark_partition_id())", "append", "025", 1, "record"),
    (
        "from pyspark.sql.streaming import StatefulProcessor\n"
        "class Nothing(StatefulProcessor):\n"
        "    def init(self, handle): pass\n"
        "    def handleInputRows(self, key, rows, timerValues): yield from ()\n"
        "    def close(self): pass\n"
        "devices = rows.groupBy('device')\n"
        "return devices.transformWithState(Nothing(), 'device string', 'Append', 'ProcessingTime')",
        "append",
        "030",
        7,
        "EventTime",
    ),
    # Dynamic, so that the text does not show it.
    ("getattr(rows, 'show')()\nreturn rows", "append", "001", 1, "console"),
    ("first = (rows if True else None).take(1)\nreturn rows", "append", "001", 1, "join"),
    (
        "kept = (rows if True else None).where('id > 1')\nprint(kept.count())\nreturn kept",
        "append",
        "001",
        2,
        "ledger",
    ),
    ("return rows.limit((rows if True else None).isEmpty() + 1)", "append", "001", 1, "groups"),
    ("return rows.where(F.col('id') == (rows if True else None).first().id)", "append", "001", 1, "join"),
    ("[write] = [getattr(rows, 'write')]\nreturn rows", "append", "003", 1, "sinks"),
    (
        "read = getattr(rows.sparkSession, 'readStream')\nreturn rows.select('id').union(\n"
        "    read.format('rate').load().select('value'))",
        "append",
        "004",
        3,
        "source",
    ),
]

REFUSED_WITHOUT_EVENT_TIME = [
    ("return rows.dropDuplicatesWithinWatermark(['id'])", "append", "012", 1, "event_time"),
    ("return rows.dropDuplicates(['id', 'at'])", "append", "012", 1, "event_time"),
    ("return rows.groupBy(MINUTES).count()", "append", "013", 1, "watermark"),
    (f"{OTHERS}\nreturn rows.join(others, F.expr(TIMES))", "append", "016", 2, "event_time"),
]


@pytest.mark.parametrize(
    ("event_time", "corpus"), [(True, REFUSED_WITH_EVENT_TIME), (False, REFUSED_WITHOUT_EVENT_TIME)]
)
def test_what_a_stream_cannot_do_is_refused_with_line_reason_and_alternative(
    lake: Lake, event_time: bool, corpus: list[tuple[str, str, str, int | None, str]]
) -> None:
    wrong = []
    for body, mode, number, line, word in corpus:
        error = refusal_of(pipeline_with(lake, body, mode, event_time=event_time))
        found = (error.error_id, place(error), word in error.fix, isinstance(error, SpecError))
        if found != (f"TIDE-PLAN-{number}", line, True, True) or not error.facts.get("reason"):
            wrong.append(f"{body}\n-> {found}: {error}")
    assert not wrong, "\n\n".join(wrong)


# Body, mode of the table, warnings.
ACCEPTED = [
    ("return rows", "append", []),
    ("return rows.where('id > 1').withColumn('x', F.upper('device'))", "append", []),
    ("return rows.dropDuplicates(['id', 'at'])", "append", []),
    ("return rows.dropDuplicatesWithinWatermark(['id'])", "append", []),
    ("return rows.groupBy(MINUTES, 'device').agg(F.avg('value').alias('v'))", "append", []),
    ("return rows.groupBy(F.session_window('at', '5 minutes'), 'device').count()", "append", []),
    ("return rows.dropDuplicates(['id', 'at']).groupBy(MINUTES, 'device').count()", "append", []),
    (
        "counts = rows.groupBy(MINUTES, 'device').count()\n"
        "return counts.groupBy(F.window(F.window_time('window'), '1 hour')).sum('count')",
        "append",
        [],
    ),
    (f"{OTHERS}\nreturn rows.join(others, F.expr(TIMES))", "append", []),
    (f"{OTHERS}\nreturn rows.join(others, F.expr(TIMES), 'left')", "append", []),
    (f"{OTHERS}\nreturn rows.join(others, F.expr('id = other AND at = later'))", "append", []),
    # Spark's optimizer moves the bound into the join.
    (f"{OTHERS}\nreturn rows.join(others, F.expr('id = other')).where(TIMES)", "append", []),
    (
        f"{OTHERS}\njoined = rows.join(others, F.expr('id = other')).withColumn('x', F.upper('device'))\n"
        "return joined.where(TIMES).select('id', 'x')",
        "append",
        [],
    ),
    (
        f"{QUERY}'SELECT a.id FROM r a, r b WHERE a.id = b.id '\n"
        "    'AND a.at BETWEEN b.at AND b.at + INTERVAL 1 HOUR')",
        "append",
        [],
    ),
    (f"{QUERY}'SELECT DISTINCT id, at FROM r')", "append", []),
    (f"{QUERY}'SELECT DISTINCT id, at FROM r')", "merge", []),
    (f"{STATIC}\nreturn rows.join(devices, 'device', 'left')", "append", []),
    (f"{STATIC}\nreturn rows.join(devices.distinct().limit(1), 'device', 'left_anti')", "append", []),
    ("return rows.groupBy(MINUTES, 'device').count()", "merge", []),
    ("return rows.groupBy('device').count()", "merge", ["042"]),
    ("return rows.groupBy('device').count().orderBy('count')", "replace", []),
    ("return rows.groupBy('device').count().orderBy('count').limit(3)", "replace", []),
    # Spark 4.2 does this, although older documents say otherwise.
    ("return rows.limit(3)", "append", ["041"]),
    ("return rows.withColumn('now', F.current_timestamp())", "append", ["040"]),
    ("return rows.withColumn('day', F.current_date()).where('at < now()')", "append", ["040", "040"]),
    ("return rows.groupBy(MINUTES, 'device').agg(F.first('id'))", "append", ["043"]),
    (
        "@F.udf('long')\ndef more(number):\n    return number + 1\n"
        "return rows.withColumn('x', more.asNondeterministic()('id'))",
        "append",
        ["044"],
    ),
]


def test_what_a_stream_can_do_is_accepted_and_what_one_should_know_is_told(lake: Lake) -> None:
    for body, mode, warnings in ACCEPTED:
        told = refuse_or_warn(findings_of(pipeline_with(lake, body, mode)))
        ids = [warning.error.error_id for warning in told]
        assert ids == [f"TIDE-PLAN-{number}" for number in warnings], body
        assert all(place(warning.error) is not None for warning in told), body


def test_the_line_of_one_step_among_many_is_found(lake: Lake) -> None:
    steps = "\n".join(f"rows = rows.withColumn('c{n}', F.col('id') + {n})" for n in range(30))
    error = refusal_of(pipeline_with(lake, f"{steps}\nrows = rows.orderBy('id')\nreturn rows"))
    assert (error.error_id, place(error)) == ("TIDE-PLAN-010", 31)


def test_the_line_is_the_transforms_where_a_library_made_the_rows(lake: Lake) -> None:
    body = (
        "from functools import reduce\nsteps = ('id', 'at')\nreturn reduce(\n    DataFrame.sort, steps, rows)"
    )
    error = refusal_of(pipeline_with(lake, body))
    assert (error.error_id, place(error)) == ("TIDE-PLAN-010", 3)


def test_an_analysis_tells_all_and_refuses_nothing_itself(lake: Lake) -> None:
    body = "late = rows.withColumn('x', F.rand()).withColumn('now', F.current_timestamp())\nreturn late"
    pipeline = pipeline_with(lake, body).resolved
    told = analyse(lake.spark, pipeline)
    assert [(one["id"], one["warns"]) for one in told] == [("TIDE-PLAN-025", False), ("TIDE-PLAN-040", True)]
    assert all(one["facts"]["file"].endswith("readings.py:9") for one in told)


def test_a_driver_refuses_before_anything_is_started(lake: Lake) -> None:
    pipeline = pipeline_with(lake, "return rows.groupBy('device').count()")
    with pytest.raises(SpecError) as refused:
        pipeline.run_incremental()
    assert (refused.value.error_id, refused.value.exit_code) == ("TIDE-PLAN-013", 64)
    assert refused.value.facts["output_mode"] == "append"
    assert not pipeline.checkpoint.exists() or not list(pipeline.checkpoint.iterdir())


# The same pipeline with `late: table`; line, id and a word of the alternative.
REFUSED_WITH_A_TABLE_OF_LATE_ROWS = [
    ("return rows.withWatermark('at', '1 hour').groupBy(MINUTES).count()", "026", "event_time"),
    ("return rows.where('id > 1').union(rows)", "027", "explode"),
    ("return rows.repartitionByRange(2, 'id')", "028", "repartition"),
    (f"{OTHERS}\nreturn rows.join(others, F.expr(TIMES))", "027", "once"),
]


def test_what_would_hide_or_repeat_late_rows_is_refused_where_they_have_a_table(lake: Lake) -> None:
    wrong = []
    for body, number, word in REFUSED_WITH_A_TABLE_OF_LATE_ROWS:
        error = refusal_of(pipeline_with(lake, body, late="table"))
        found = (error.error_id, place(error), word in error.fix)
        if found != (f"TIDE-PLAN-{number}", len(body.splitlines()), True):
            wrong.append(f"{body}\n-> {found}: {error}")
        if refused := [f for f in findings_of(pipeline_with(lake, body)) if not f.rule.warns]:
            wrong.append(f"{body}\n-> refused with `late: drop`, too: {refused}")
    assert not wrong, "\n\n".join(wrong)


def test_where_a_row_is_late_by_its_own_time_is_reported(lake: Lake) -> None:
    corpus = {
        "return rows.groupBy(MINUTES).count()": [],
        "return rows.dropDuplicates(['id', 'at']).groupBy(MINUTES).count()": [],
        "return rows.groupBy(F.window('at', '10 minutes', '5 minutes')).count()": ["sliding windows"],
        "return rows.groupBy(F.session_window('at', '5 minutes')).count()": ["session windows"],
        "minutes = rows.groupBy(MINUTES).count()\n"
        "return minutes.groupBy(F.window(F.window_time('window'), '1 hour')).count()": [
            "several aggregations"
        ],
    }
    for body, expected in corpus.items():
        found = findings_of(pipeline_with(lake, body, late="table"))
        reasons = [f.error.facts["reason"] for f in found if f.error.error_id == "TIDE-PLAN-045"]
        assert reasons == expected, body
