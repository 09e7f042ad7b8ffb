"""Rules for transforms: refusals and warnings.

`validate`, `plan --spark`, the drivers and conf/README.md share this table. The rules follow Spark 4.2 where
its older documentation differs. For example, Spark 4.2 accepts `limit` in append mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import SpecError


@dataclass(frozen=True)
class Rule:
    """A rule about one operation of a transform.

    Args:
        error_id: Stable id.
        what: Description of the operation for the reference.
        why: Reason for the refusal or consequence of the operation, as a sentence.
        instead: Fix.
        warns: True if the operation is only reported, False if it is refused.
    """

    error_id: str
    what: str
    why: str
    instead: str
    warns: bool = False

    def refusal(self, facts: Mapping[str, object], instead: str = "") -> SpecError:
        """Return the error of a transform with this operation."""
        return SpecError(self.error_id, self.why, facts=facts, fix=instead or self.instead)


ACTION = Rule(
    "TIDE-PLAN-001",
    "an action on the stream: `show`, `count`, `collect`, `toPandas`, `foreach`, `rdd`, `cache`…; on a "
    "joined table: `collect`, `toPandas`, `cache`…",
    "A transform describes rows and never runs them: a stream has no end at which an action could answer, "
    "and what is taken from a joined table at the start would never change.",
    "return the DataFrame; its sinks receive the rows",
)
NOTHING_RETURNED = Rule(
    "TIDE-PLAN-002",
    "no `return` with a value",
    "The transform never returns a DataFrame.",
    "end it with `return` and the DataFrame that the sinks are to get",
)
WRITES = Rule(
    "TIDE-PLAN-003",
    "`write`, `writeTo`, `writeStream`, `awaitTermination`",
    "A transform does not write: what it writes itself is neither exactly once nor in the ledger.",
    "return the DataFrame and declare where it goes under `sinks`; one pipeline can have several",
)
OWN_SOURCE = Rule(
    "TIDE-PLAN-004",
    "reading another stream or a file: `readStream`, `open`",
    "The transform reads what the pipeline file does not declare: no offset, digest or gate knows of it.",
    "declare the stream as the pipeline's source; put constants into the transform file",
)
TWICE = Rule(
    "TIDE-PLAN-005",
    "using one of several streams twice, as in a self-join",
    "The checkpoint identifies each of several streams by its name, so each stream can be used only once.",
    "write the stream into a table by a pipeline of its own, and name it twice, as two sources",
)
UNUSED = Rule(
    "TIDE-PLAN-006",
    "not using one of several streams",
    "Spark would not read it, and the checkpoint would hold no place in it.",
    "take it out of the pipeline's `sources`, or use it",
)
OTHER_RETURNED = Rule(
    "TIDE-PLAN-007",
    "a `return` of a list, a tuple, a constant, groups without an aggregation or another value",
    "The transform returns a value that is not a DataFrame.",
    "return one DataFrame; join or union several, and let each sink choose its rows with `where`",
)
SORT = Rule(
    "TIDE-PLAN-010",
    "`orderBy`, `sort`; allowed after an aggregation into a table with `mode: replace`",
    "A stream cannot be sorted: its last row never comes.",
    "sort when the table is read, or aggregate first and write the table with `mode: replace`",
)
LIMIT = Rule(
    "TIDE-PLAN-011",
    "`offset`; `limit` into a table with `mode: merge`",
    "Spark 4.2 cannot skip rows of a stream, and can limit them in append mode only.",
    "limit when the table is read, or aggregate, sort, limit and write the table with `mode: replace`",
)
DUPLICATES = Rule(
    "TIDE-PLAN-012",
    "`distinct`, `SELECT DISTINCT`, `dropDuplicates` without the event-time column; "
    "`dropDuplicatesWithinWatermark` without `event_time`",
    "Removing repetitions without a bound in event time keeps every key in the state for ever.",
    "declare `event_time` with a watermark and name its column among the keys, "
    "dropDuplicates(['id', 'timestamp']), or use dropDuplicatesWithinWatermark(['id']); "
    "or write the table with `mode: merge` and `key`; where few keys ever come, set `run.unbounded_state: "
    "accepted`",
)
NO_WATERMARK = Rule(
    "TIDE-PLAN-013",
    "an aggregation without a window of event time, into a table with `mode: append` or a topic",
    "In append mode a group is written once it is over, and without a watermark none ever is.",
    "declare `event_time` with a watermark and group by window('timestamp', '5 minutes'); or write the table "
    "with `mode: merge` and `key`, or `mode: replace`",
)
CHAINED = Rule(
    "TIDE-PLAN-014",
    "an aggregation of aggregates or joins, into a table with `mode: merge` or `mode: replace`",
    "Stateful operations can be chained in append mode only: in others the first one changes rows that the "
    "next has counted.",
    "write with `mode: append` and group by window_time(window) of the first; or write the first result to a "
    "table and read it in a second pipeline",
)
COMPLETE = Rule(
    "TIDE-PLAN-015",
    "rows without an aggregation, into a table with `mode: replace`",
    "`mode: replace` writes the whole result with each batch, and only an aggregation has a whole result.",
    "aggregate in the transform, or write the table with `mode: append`, or `mode: merge` and `key`",
)
UNBOUNDED_JOIN = Rule(
    "TIDE-PLAN-016",
    "a join of two streams without a bound in time; for an inner join the bound may be in a later `where`",
    "A join of two streams needs a watermark and a bound in time for both sides: else it keeps every row for "
    "ever, and an outer or semi join never knows that a match will not come.",
    "declare `event_time`, and join by the same window, or add a condition such as "
    "b_time BETWEEN a_time AND a_time + INTERVAL 1 HOUR; for an inner join of few rows, set "
    "`run.unbounded_state: accepted`",
)
JOIN_MODE = Rule(
    "TIDE-PLAN-017",
    "a join of two streams whose kind does not fit the table's mode: outer only in append, none in replace",
    "Spark joins two streams in append mode, and inner joins also in merge mode.",
    "write the table with `mode: append`",
)
JOIN_SIDE = Rule(
    "TIDE-PLAN-018",
    "a join that keeps all rows of a joined table (right, full), or an anti join of two streams",
    "The join would need to know that a match will never come, and a stream does not end.",
    "keep the rows of the stream: put it on the left of a `left` join; "
    "of two streams, a `left` join with a bound in time and `where(other_id IS NULL)` is an anti join",
)
SET_OPERATION = Rule(
    "TIDE-PLAN-019",
    "`intersect`, `except`, `subtract` of two streams",
    "Comparing a stream with all rows of another needs rows that have not come yet.",
    "join the two with a bound in time (`left_semi` for intersect)",
)
ROW_WINDOW = Rule(
    "TIDE-PLAN-020",
    "`row_number`, `lag`, `rank`… over a Window",
    "A window over rows needs all rows of its partition; a stream knows windows of time only.",
    "aggregate by window('timestamp', …) and key, with max_by or min_by for the newest or the first row; or "
    "compute it from the finished table",
)
DISTINCT_AGGREGATE = Rule(
    "TIDE-PLAN-021",
    "`countDistinct` and other distinct aggregates",
    "A stream cannot count distinct values exactly.",
    "use approx_count_distinct, or dropDuplicates with the event-time column before a count",
)
SESSION_MODE = Rule(
    "TIDE-PLAN-022",
    "session windows into a table with `mode: merge`",
    "A session that grows changes its key, so it cannot be updated by key.",
    "write the table with `mode: append`: a session is written once it is over",
)
SAMPLE = Rule(
    "TIDE-PLAN-023",
    "`sample`, `randomSplit`",
    "A repeated batch draws a new sample, so tables would contradict each other.",
    "choose by a hash of the key: where(abs(xxhash64('id')) % 100 < 10)",
)
PIVOT = Rule(
    "TIDE-PLAN-024",
    "`pivot`, `crosstab`",
    "Spark cannot pivot a stream: it would read all values first.",
    "write one conditional aggregate per value: count(when(col('kind') == 'a', 1)).alias('a')",
)
RANDOM = Rule(
    "TIDE-PLAN-025",
    "`rand`, `randn`, `uuid`, `shuffle`, `monotonically_increasing_id`, `spark_partition_id`, also with a "
    "seed",
    "A repeated batch or a backfill would give other rows than the first time.",
    "make it from the record: xxhash64 or sha2 of its key, or of kafka_topic, kafka_partition and "
    "kafka_offset",
)
OWN_WATERMARK = Rule(
    "TIDE-PLAN-026",
    "`withWatermark`, with `late: table`",
    "Rows that are late by a watermark of the transform's own would be dropped, and be in no table.",
    "leave it out: the rows come with the watermark of `event_time`; or set `late: drop`",
)
READ_TWICE = Rule(
    "TIDE-PLAN-027",
    "using a stream of files, a table or a rate source twice (`union`, a self-join), with `late: table`",
    "Each use reads the rows again, and without offsets a late row cannot be recognized as the same one.",
    "use the stream once, for instance with explode in the place of a union; or set `late: drop`",
)
RANGES = Rule(
    "TIDE-PLAN-028",
    "`repartitionByRange`, with `late: table`",
    "Spark samples the rows for the ranges before the batch begins, when late rows are not known yet.",
    "use repartition, or leave it out; or set `late: drop`",
)
OTHERWISE = Rule(
    "TIDE-PLAN-029",
    "anything else that Spark 4.2 refuses in a stream",
    "Spark does not run this as a stream.",
    "see `reason`, which is Spark's own; compute it from the finished table instead",
)
NEVER_ENDS = Rule(
    "TIDE-PLAN-030",
    "`transformWithState` with ProcessingTime, in mode incremental",
    "Spark asks for one more batch after each, because a timer may be due: the run would never end.",
    "use EventTime and timers of event time, or run it with `mode: stream`",
)
NEEDS_ROCKSDB = Rule(
    "TIDE-PLAN-031",
    "`transformWithState`, with `run.state_store: memory`",
    "Its states are column families of a store, and Spark's store in memory has none.",
    "leave `run.state_store` out: the default, rocksdb, has them",
)
STATE_AND_POISON = Rule(
    "TIDE-PLAN-032",
    "operations that do not work row by row (aggregations, deduplication, `limit`, joins of streams, "
    "functions with state), with `on_poison: quarantine`",
    "A part of a batch that runs by itself has other state, so it does not show at which record the whole "
    "batch failed.",
    "leave `on_poison` out; or do what can fail in a pipeline of its own, and read its table here",
)
NOT_CONTINUOUS = Rule(
    "TIDE-PLAN-033",
    "operations other than `select`, `withColumn` and `where` (`explode`, `union`, `coalesce`, "
    "`current_timestamp`, joins, aggregations, mapInArrow…), with `trigger: {continuous: …}`",
    "Continuous processing makes of each row one row or none: Spark refuses all else.",
    "leave it out; or use `trigger: 0 seconds`, which starts a batch as soon as the last one has ended",
)
NOT_REAL_TIME = Rule(
    "TIDE-PLAN-034",
    "a Python function, an aggregation, deduplication, `repartition`, `coalesce`, or the stream used twice, "
    "with `trigger: {real_time: …}`",
    "Spark 4.2 runs its own functions on rows in real-time mode, and neither Python nor state nor a shuffle.",
    "write it with Spark's functions, or in SQL; or use `trigger: 0 seconds`, which starts a batch as soon "
    "as the last one has ended",
)
INPUT_FILE = Rule(
    "TIDE-PLAN-035",
    "`input_file_name()`, `input_file_block_start()`, `input_file_block_length()`",
    "They give an empty text or -1: tasks read the files of a files source by themselves.",
    "take what the folders say as columns, e.g. `day=2026-01-31`; the quarantine names the file of a record",
)
CLOCK = Rule(
    "TIDE-PLAN-040",
    "`current_timestamp`, `now`, `current_date`; `transformWithState` with ProcessingTime",
    "The time is that of the batch: a repeated batch gives the same, a backfill another.",
    "use the event time, or the record's arrival: kafka_timestamp",
    warns=True,
)
FIRST_ROWS = Rule(
    "TIDE-PLAN-041",
    "`limit` in append mode",
    "Spark 4.2 writes the first rows that ever arrive, and nothing after them.",
    "limit when the table is read",
    warns=True,
)
GROWING_STATE = Rule(
    "TIDE-PLAN-042",
    "an aggregation without a watermark into a table with `mode: merge`",
    "The state keeps a row for each group for ever: right for a bounded number of keys.",
    "group by window of event time, if the number of groups grows with time",
    warns=True,
)
ROW_ORDER = Rule(
    "TIDE-PLAN-043",
    "`first`, `last`, `any_value`, `collect_list`, `collect_set`",
    "The result depends on the order in which rows arrive: a backfill may give another.",
    "use min_by or max_by with the event time; sort_array around a collected list",
    warns=True,
)
OWN_TIME = Rule(
    "TIDE-PLAN-045",
    "an aggregation other than by tumbling windows, with `late: table`",
    "A row is late by its own time there, so it is set aside although Spark would still have counted it.",
    "group by tumbling windows, where the end of the window counts; or set `late: drop`",
    warns=True,
)
UNBOUNDED_STATE = Rule(
    "TIDE-PLAN-046",
    "an inner join of two streams without a bound in time; `distinct`, or `dropDuplicates` without the "
    "event-time column; with `run.unbounded_state: accepted`",
    "The state keeps every row of the join, or every key, for ever: it grows until the driver has no room "
    "for it.",
    "watch its growth: tidemill checkpoint doctor; bound it in event time before it takes half of the memory "
    "(TIDE-TUNE-008)",
    warns=True,
)
UNSURE_FUNCTION = Rule(
    "TIDE-PLAN-044",
    "a Python function marked `asNondeterministic`",
    "It says of itself that it can give another result when a batch is repeated.",
    "make it a function of its arguments, if rows must never change",
    warns=True,
)

RULES = tuple(rule for rule in list(globals().values()) if isinstance(rule, Rule))

# Specific fixes for actions. They replace the general fix.
_INSTEAD_OF = {
    "show": "return the DataFrame and add the sink `console: {}`, or look at the newest rows of the table: "
    "`tidemill watch PIPELINE --once`",
    "count": "count in groups, groupBy(window('timestamp', '5 minutes')).count(); the number of rows of each "
    "batch is in `tidemill ledger PIPELINE`",
    "foreach": "return the DataFrame and declare its sinks; use a column expression or a UDF to change rows",
    "rdd": "use column expressions, a UDF or mapInArrow",
    "collect": "join with the other rows instead of collecting them into Python",
    "toPandas": "use mapInPandas or a pandas UDF, which get the rows in parts",
    "cache": "leave it out: a batch that several sinks write is kept for them",
}
_INSTEAD_LIKE = {
    "foreachPartition": "foreach",
    "isEmpty": "count",
    "take": "collect",
    "head": "collect",
    "first": "collect",
    "tail": "collect",
    "toLocalIterator": "collect",
    "toArrow": "toPandas",
    "toJSON": "rdd",
    "persist": "cache",
    "checkpoint": "cache",
    "localCheckpoint": "cache",
}
_RULE_OF_CALL = {
    **dict.fromkeys(("write", "writeTo", "writeStream", "awaitTermination"), WRITES),
    **dict.fromkeys(("readStream", "open"), OWN_SOURCE),
    **dict.fromkeys(("pivot", "crosstab"), PIVOT),
}


def wrong_call(method: str, facts: Mapping[str, object]) -> SpecError:
    """Return the error of a transform that calls a forbidden method."""
    rule = _RULE_OF_CALL.get(method, ACTION)
    instead = _INSTEAD_OF.get(_INSTEAD_LIKE.get(method, method), "") if rule is ACTION else ""
    return rule.refusal({**facts, "call": method}, instead)


def rules_reference() -> str:
    """Return the table of all rules as a Markdown section of the conf reference."""
    lines = [
        "## What a transform must not do\n",
        "`tidemill validate` finds violations that are certain from the function's source text. `tidemill "
        "plan NAME --spark`\nand the start of every driver find those that Spark's analysed plan shows. The "
        "rules follow Spark 4.2 where older\ndocumentation differs.\n",
    ]
    for title, warns in (("refused", False), ("reported and run", True)):
        lines += [f"| id | {title} | because | instead |", "|---|---|---|---|"]
        lines += [
            f"| {rule.error_id} | {rule.what} | {rule.why} | {rule.instead} |"
            for rule in RULES
            if rule.warns is warns
        ]
        lines.append("")
    return "\n".join(lines)
