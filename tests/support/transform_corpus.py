"""Small transforms of one pipeline over an empty folder, and the findings in them without running a query."""

from __future__ import annotations

from tests.support.lake import Lake, LakePipeline
from tidemill.engine.flow import Collectors, Flow, build_flow
from tidemill.engine.plan_check.check import Finding
from tidemill.payload.quarantine import Quarantine
from tidemill.sources.read import read_streams

HEAD = """from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

MINUTES = F.window("at", "5 minutes")
TIMES = "id = other AND at BETWEEN later AND later + INTERVAL 1 HOUR"


def transform(rows: DataFrame) -> DataFrame:
"""
FIRST_LINE = 9

OTHERS = "others = rows.select(F.col('id').alias('other'), F.col('at').alias('later'))"
STATIC = "devices = rows.sparkSession.createDataFrame([('a', 'kitchen')], 'device string, room string')"

QUERY = "rows.createOrReplaceTempView('r')\nreturn rows.sparkSession.sql("

SINKS: dict[str, dict[str, list[str]]] = {"append": {}, "merge": {"key": ["device"]}, "replace": {}}


def pipeline_with(
    lake: Lake, body: str, mode: str = "append", *, event_time: bool = True, late: str = "drop"
) -> LakePipeline:
    """Return a pipeline whose transform is `HEAD` and a body; `mode` is its table's."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    lake.transform("readings", HEAD + lines)
    (lake.root / "landing").mkdir(parents=True, exist_ok=True)
    times = {"event_time": {"column": "at", "watermark": "10 minutes", "max_ahead": "off", "late": late}}
    return lake.pipeline(
        "readings",
        source={
            "files": {
                "path": "landing",
                "format": "json",
                "schema": "id long, device string, value double, at timestamp",
                "on_invalid": "fail",
            }
        },
        **(times if event_time else {}),
        transform="readings:transform",
        sinks=[{"delta": {"table": "gold/readings", "mode": mode, **SINKS[mode]}}],
        run={"mode": "incremental"},
    )


def flow_of(pipeline: LakePipeline) -> Flow:
    """Return the flow as a stream's, which reads nothing."""
    resolved = pipeline.resolved
    spark = pipeline.lake.spark
    quarantine = Quarantine.at(spark.sparkContext, resolved.layout.quarantine("readings"), "corpus")
    return build_flow(resolved, read_streams(spark, resolved), Collectors(quarantine))


def findings_of(pipeline: LakePipeline) -> list[Finding]:
    return flow_of(pipeline).findings
