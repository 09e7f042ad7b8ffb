"""Rows written without batches: the allowed transforms, and those that Spark refuses itself."""

from __future__ import annotations

from tests.support.lake import Lake
from tests.support.running_stream import running_stream
from tests.support.transform_corpus import HEAD, findings_of
from tidemill.checkpoint.reading.batches import CheckpointBatches

PYTHON = "@F.udf('string')\ndef up(text):\n    return text.upper()\n"
TEXT = "rows.select(F.col('kafka_value').cast('string').alias('text'))"
KITCHENS = "kitchens = rows.sparkSession.createDataFrame([('a', 'kitchen')], 'text string, room string')"

# Trigger, body of the transform, what refuses it.
BODIES: list[tuple[str, str, list[str]]] = [
    ("continuous", f"return {TEXT}.where('text IS NOT NULL')", []),
    ("continuous", f"return {TEXT}.select(F.from_json('text', 'id BIGINT').alias('json'))", []),
    ("continuous", f"{PYTHON}return {TEXT}.select(up('text').alias('text'))", []),
    ("continuous", f"return {TEXT}.select(F.explode(F.split('text', ' ')).alias('word'))", ["TIDE-PLAN-033"]),
    ("continuous", f"return {TEXT}.coalesce(1)", ["TIDE-PLAN-033"]),
    ("continuous", f"return {TEXT}.mapInArrow(lambda batches: batches, 'text string')", ["TIDE-PLAN-033"]),
    ("continuous", f"texts = {TEXT}\nreturn texts.union(texts)", ["TIDE-PLAN-033"]),
    ("real_time", f"return {TEXT}.select(F.explode(F.split('text', ' ')).alias('word'))", []),
    ("real_time", f"{KITCHENS}\nreturn {TEXT}.join(kitchens, 'text', 'left')", []),
    ("real_time", f"{PYTHON}return {TEXT}.select(up('text').alias('text'))", ["TIDE-PLAN-034"]),
    ("real_time", f"return {TEXT}.coalesce(1)", ["TIDE-PLAN-034"]),
    ("real_time", f"return {TEXT}.mapInArrow(lambda batches: batches, 'text string')", ["TIDE-PLAN-034"]),
    ("real_time", f"return {TEXT}.groupBy('text').count()", ["TIDE-PLAN-034"]),
    ("real_time", f"texts = {TEXT}\nreturn texts.union(texts)", ["TIDE-PLAN-034"]),
]


def test_what_spark_cannot_do_row_by_row_is_refused_with_its_line_before_a_query_starts(lake: Lake) -> None:
    lake.configure(kafka={"bootstrap_servers": "localhost:1"})
    found = {}
    for trigger, body, _ in BODIES:
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        pipeline = lake.pipeline(
            "readings",
            source={"kafka": {"topic": "texts"}},
            transform=lake.transform("readings", HEAD + lines),
            sinks=[{"kafka": {"topic": "copies"}}],
            run={"trigger": {trigger: "10 seconds"}},
        )
        refused = [finding.error for finding in findings_of(pipeline) if not finding.rule.warns]
        assert all("readings.py:" in str(error.facts.get("file")) for error in refused), (body, refused)
        found[trigger, body] = [error.error_id for error in refused]
    assert found == {(trigger, body): expected for trigger, body, expected in BODIES}


def test_rows_of_the_clock_are_shown_and_the_next_start_goes_on_from_the_note(lake: Lake) -> None:
    pipeline = lake.pipeline(
        "clock",
        source={"rate": {"rows_per_second": 20}},
        sinks=[{"console": {}}],
        run={"trigger": {"continuous": "1 second"}},
    )
    batches = CheckpointBatches(lake.store, str(pipeline.checkpoint))

    def shown() -> int:
        """The newest row of the newest note. What the JVM prints, no fixture of Python's catches."""
        last = batches.last_committed()
        noted = None if last is None else batches.offsets(last)
        return -1 if noted is None else max(part["value"] for part in noted.ends["0"].values())

    newest = -1
    for _ in range(2):
        with running_stream(pipeline) as stream:
            stream.wait_until(lambda newest=newest: shown() > newest, f"rows after {newest} are shown")
            assert stream.drain().status.batches > 0
        newest = shown()
