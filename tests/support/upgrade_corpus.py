"""Changes of one pipeline's transform with the verdict on each; the bodies are of `transform_corpus`."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.checkpoint.upgrade.verdict import Answer

COUNTS = "return rows.groupBy(MINUTES, 'device').agg(F.count('*').alias('n'), F.sum('value').alias('v'))"
ONCE = "return rows.dropDuplicatesWithinWatermark(['id'])"
PLAIN = "return rows.where('id > 1')"
TIMED = "at BETWEEN later AND later + INTERVAL 1 HOUR"
LEFT = "left = rows.select('id', 'at', 'device')"
RIGHT = "right = rows.select(F.col('id').alias('other'), F.col('at').alias('later'))"
PAIRS = f"{LEFT}\n{RIGHT}\nreturn left.join(right, F.expr('id = other AND {TIMED}'))"
KEPT = """import pandas as pd
from pyspark.sql.streaming import StatefulProcessor
class Counter(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "n long")
    def handleInputRows(self, key, rows, timer):
        n = (self.seen.get()[0] if self.seen.exists() else 0) + sum(len(part) for part in rows)
        self.seen.update((n,))
        yield pd.DataFrame({"device": [key[0]], "n": [n]})
    def close(self):
        pass
by_device = rows.groupBy("device")
return by_device.transformWithStateInPandas(Counter(), "device string, n long", "Append", "None")"""

KEPT_MORE = KEPT.replace(
    "        self.seen", '        self.more = handle.getListState("more", "x long")\n        self.seen', 1
)
KEPT_RENAMED = KEPT.replace('"seen"', '"met"', 1)
KEPT_WIDER = KEPT.replace('"n long")', '"n long, last string")', 1)
KEPT_ELSEWHERE = KEPT.replace(
    "by_device = rows.", "by_device = rows.withColumn('device', F.upper('device')).", 1
)
KEPT_NOTHING = """import pandas as pd
from pyspark.sql.streaming import StatefulProcessor
class Counter(StatefulProcessor):
    def init(self, handle):
        pass
    def handleInputRows(self, key, rows, timer):
        yield pd.DataFrame({"device": [key[0]], "n": [sum(len(part) for part in rows)]})
    def close(self):
        pass
by_device = rows.groupBy("device")
return by_device.transformWithStateInPandas(Counter(), "device string, n long", "Append", "None")"""

ANEW: Answer = "needs new generation"


@dataclass(frozen=True)
class Change:
    """One change.

    Args:
        before: Body of the old transform.
        after: Body of the new one.
        answer: Answer of the gate.
        found: Ids of its findings.
        mode: Mode of the table before.
        mode_after: And after.
        partitions: Number of partitions after; 2 before.
    """

    before: str
    after: str
    answer: Answer
    found: tuple[str, ...] = ()
    mode: str = "append"
    mode_after: str = ""
    partitions: int = 2


CHANGES = {
    "nothing": Change(COUNTS, COUNTS, "compatible"),
    "a filter before the windows": Change(
        COUNTS, COUNTS.replace("rows.", "rows.where('value > 0').", 1), "compatible"
    ),
    "a column more before the windows": Change(
        COUNTS, COUNTS.replace("rows.", "rows.withColumn('more', F.lit(1)).", 1), "compatible"
    ),
    "a projection of what is needed": Change(
        COUNTS, COUNTS.replace("rows.", "rows.select('at', 'device', 'value').", 1), "compatible"
    ),
    "columns of the result renamed": Change(COUNTS, COUNTS + ".withColumnRenamed('n', 'many')", "compatible"),
    "an aggregate renamed": Change(COUNTS, COUNTS.replace("'n'", "'many'"), "compatible"),
    "values computed in another way": Change(
        COUNTS, COUNTS.replace("'value'", "F.col('value') * 2"), "compatible", ("TIDE-CTRL-087",)
    ),
    "a grouping column more": Change(
        COUNTS, COUNTS.replace("'device'", "'device', 'id'"), ANEW, ("TIDE-CTRL-081",)
    ),
    "another grouping column of another type": Change(
        COUNTS, COUNTS.replace("'device'", "'id'"), ANEW, ("TIDE-CTRL-081",)
    ),
    "another grouping column of the same type": Change(
        COUNTS,
        COUNTS.replace("'device'", "F.upper('device').alias('device')"),
        ANEW,
        ("TIDE-CTRL-083", "TIDE-CTRL-085"),
    ),
    "longer windows": Change(
        COUNTS, COUNTS.replace("MINUTES", "F.window('at', '10 minutes')"), ANEW, ("TIDE-CTRL-085",)
    ),
    "sliding windows": Change(
        COUNTS, COUNTS.replace("MINUTES", "F.window('at', '5 minutes', '1 minute')"), ANEW, ("TIDE-CTRL-081",)
    ),
    "an aggregate more": Change(
        COUNTS, COUNTS.replace(".agg(", ".agg(F.max('id').alias('m'), "), ANEW, ("TIDE-CTRL-081",)
    ),
    "another aggregate of the same type": Change(
        COUNTS, COUNTS.replace("F.sum", "F.max"), ANEW, ("TIDE-CTRL-083", "TIDE-CTRL-085")
    ),
    "duplicates by another column of the same type": Change(
        ONCE, ONCE.replace("rows.", "rows.withColumn('id', F.col('id') % 7).", 1), ANEW, ("TIDE-CTRL-085",)
    ),
    "duplicates by a column more": Change(
        ONCE, ONCE.replace("['id']", "['id', 'device']"), ANEW, ("TIDE-CTRL-081",)
    ),
    "state where there was none": Change(PLAIN, ONCE, ANEW, ("TIDE-CTRL-080",)),
    "no state any more": Change(ONCE, PLAIN, ANEW, ("TIDE-CTRL-080",)),
    "windows in the place of duplicates": Change(ONCE, COUNTS, ANEW, ("TIDE-CTRL-080",)),
    "duplicates removed before the windows": Change(
        COUNTS,
        COUNTS.replace("rows.", "rows.dropDuplicatesWithinWatermark(['id']).", 1),
        ANEW,
        ("TIDE-CTRL-080",),
    ),
    "a join by another key": Change(
        PAIRS, PAIRS.replace("id = other", "id + 1 = other"), ANEW, ("TIDE-CTRL-085",)
    ),
    "a join that keeps another column": Change(
        PAIRS, PAIRS.replace("'device'", "'device', 'value'"), ANEW, ("TIDE-CTRL-081",)
    ),
    "a join within a longer time": Change(
        PAIRS, PAIRS.replace("INTERVAL 1 HOUR", "INTERVAL 2 HOUR"), "compatible", ("TIDE-CTRL-087",)
    ),
    "more partitions": Change(COUNTS, COUNTS, "needs repartition", ("TIDE-CTRL-084",), partitions=3),
    "a state of its own, unchanged": Change(KEPT, KEPT, "compatible"),
    "a state of its own more": Change(KEPT, KEPT_MORE, "compatible"),
    "a state of its own less": Change(KEPT_MORE, KEPT, "compatible"),
    "a state of its own under another name": Change(KEPT, KEPT_RENAMED, ANEW, ("TIDE-CTRL-083",)),
    "a state of its own with other columns": Change(KEPT, KEPT_WIDER, ANEW, ("TIDE-CTRL-081",)),
    "a state of its own with a column renamed": Change(
        KEPT, KEPT.replace('"n long")', '"m long")', 1), ANEW, ("TIDE-CTRL-083",)
    ),
    "a state of its own of another kind": Change(
        KEPT, KEPT.replace("getValueState", "getListState", 1), ANEW, ("TIDE-CTRL-082",)
    ),
    "a state of its own by another key of the same type": Change(
        KEPT, KEPT_ELSEWHERE, ANEW, ("TIDE-CTRL-085",)
    ),
    "a processor without any state": Change(KEPT_NOTHING, KEPT_NOTHING, "compatible"),
}
