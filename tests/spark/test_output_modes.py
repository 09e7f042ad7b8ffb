"""Kind of query against mode of the table: each pair is refused, or started by Spark as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.transform_corpus import OTHERS, QUERY, SINKS, STATIC, findings_of, flow_of, pipeline_with

KINDS = {
    "rows": "return rows.select('device', 'id')",
    "windows": "return rows.groupBy(MINUTES, 'device').count()",
    "groups": "return rows.groupBy('device').count()",
    "sorted groups": "return rows.groupBy('device').count().orderBy('count')",
    "each once": "return rows.dropDuplicates(['device', 'at'])",
    "each once by a query": f"{QUERY}'SELECT DISTINCT device, at FROM r')",
    "each once within the watermark": "return rows.dropDuplicatesWithinWatermark(['id'])",
    "sessions": "return rows.groupBy(F.session_window('at', '5 minutes'), 'device').count()",
    "joined with a table": f"{STATIC}\nreturn rows.join(devices, 'device').select('device', 'id')",
    "windows of windows": (
        "counts = rows.groupBy(MINUTES, 'device').count()\n"
        "return counts.groupBy(F.window(F.window_time('window'), '1 hour'), 'device').sum('count')"
    ),
    "joined": f"{OTHERS}\nreturn rows.join(others, F.expr(TIMES)).select('device', 'id')",
    "joined, then bounded": (
        f"{OTHERS}\nreturn rows.join(others, F.expr('id = other')).where(TIMES).select('device', 'id')"
    ),
    "joined or not": f"{OTHERS}\nreturn rows.join(others, F.expr(TIMES), 'left').select('device', 'id')",
}

# Kind of query, then what becomes of it in append, merge and replace.
MATRIX = {
    "rows": ("", "", "015"),
    "windows": ("", "", ""),
    "groups": ("013", "", ""),
    "sorted groups": ("013", "010", ""),
    "each once": ("", "", "015"),
    "each once by a query": ("", "", ""),
    "each once within the watermark": ("", "", "015"),
    "sessions": ("", "022", ""),
    "joined with a table": ("", "", "015"),
    "windows of windows": ("", "014", "014"),
    "joined": ("", "", "015"),
    "joined, then bounded": ("", "", "015"),
    "joined or not": ("", "017", "015"),
}


@pytest.mark.soak
def test_each_kind_of_query_fits_the_modes_of_the_table_that_the_matrix_says(lake: Lake) -> None:
    """Spark also accepts each accepted combination at the start of a query."""
    found = {}
    for kind, body in KINDS.items():
        for mode in SINKS:
            pipeline = pipeline_with(lake, body, mode)
            refused = [finding for finding in findings_of(pipeline) if not finding.rule.warns]
            found[kind, mode] = refused[0].rule.error_id.rpartition("-")[2] if refused else ""
            if not refused:
                start_and_stop(pipeline)
    assert found == {
        (kind, mode): number for kind, row in MATRIX.items() for mode, number in zip(SINKS, row, strict=True)
    }


def start_and_stop(pipeline: LakePipeline) -> None:
    """Start the query without Tidemill's checks. The folder is empty, so no batch runs."""
    frame = flow_of(pipeline).frame
    output_mode = pipeline.resolved.spec.output_mode
    query = frame.writeStream.outputMode(output_mode).foreachBatch(lambda *_: None)
    running = query.option("checkpointLocation", str(next_folder(pipeline.lake))).start()
    running.stop()
    assert running.exception() is None


def next_folder(lake: Lake) -> Path:
    return lake.folder / f"checkpoint-{len(list(lake.folder.glob('checkpoint-*')))}"
