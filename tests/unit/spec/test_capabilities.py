"""Valid combinations: the table is enforced for every combination, and each refusal has a fix."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import ValidationError

from tests.support.conf_project import ENVIRONMENT, PIPELINE, ConfProject
from tests.support.declared import declared
from tidemill.errors import SpecError
from tidemill.spec.capabilities import (
    ALL_REFUSALS,
    REFUSALS,
    SINKS,
    SOURCES,
    TRIGGERS,
)
from tidemill.spec.capabilities_reference import capabilities_reference
from tidemill.spec.combinations import check_here
from tidemill.spec.refusal import Cell, RefusedError
from tidemill.spec.sinks import Sink
from tidemill.spec.sources import Source
from tidemill.spec.trigger import Kind, Trigger

CLUSTER = """
runtime: kubernetes
root: abfss://lake@account.dfs.core.windows.net/
kubernetes: {namespace: streams, image: "registry.local/tidemill:1"}
"""

REPLACED = {"delta": {"table": "gold/x", "mode": "replace"}}
CRM = {"connection": "crm", "table": "public.orders", "key": ["id"]}
EXPORTS = {"files": {"path": "exports", "format": "csv"}}

TO_TOPIC = {"sinks": [{"kafka": {"topic": "x"}}]}
CONTINUOUS_TO_TOPIC = {**TO_TOPIC, "run": {"trigger": {"continuous": "1 second"}}}
REAL_TIME_TO_TOPIC = {**TO_TOPIC, "run": {"trigger": {"real_time": "5 minutes"}}}
WORKING_ON_BATCHES: list[dict[str, Any]] = [
    {"payload": {"text": {}}},
    {"event_time": {"column": "kafka_timestamp", "watermark": "1 minute"}},
    {"source": {"kafka": {"topic": "orders", "max_offsets_per_batch": 10}}},
    {"models": {"fraud": {"uri": "models:/fraud@live"}}, "transform": "own:transform"},
    {
        "source": None,
        "sources": {"orders": {"kafka": {"topic": "o"}}, "users": {"kafka": {"topic": "u"}}},
        "transform": "own:transform",
    },
    {
        "source": None,
        "sources": {
            "orders": {"kafka": {"topic": "o"}},
            "users": {"delta": {"table": "silver/u"}, "as": "table"},
        },
        "transform": "own:transform",
    },
]

# Keys of the pipeline file, and their refusal. Sources and sinks are replaced as a whole.
CORPUS: list[tuple[str, dict[str, Any], str]] = [
    (CLUSTER, {"source": {"socket": {"port": 9999}}, "sinks": [{"console": {}}]}, "001"),
    ("", {"source": {"socket": {"port": 9999}}}, "002"),
    ("", {"source": {"socket": {"port": 9}}, "sinks": [{"console": {}}, {"kafka": {"topic": "x"}}]}, "002"),
    (
        "",
        {"source": {"socket": {"port": 9}}, "sinks": [{"console": {}}], "run": {"mode": "incremental"}},
        "003",
    ),
    (CLUSTER, {"sinks": [{"memory": {"name": "counts"}}]}, "004"),
    ("", {"sinks": [{"delta": {"table": "gold/x", "mode": "update"}}]}, "005"),
    ("", {"sinks": [{"delta": {"table": "gold/x", "mode": "complete"}}]}, "006"),
    ("", {"sinks": [{"files": {"path": "exports", "format": "parquet", "mode": "complete"}}]}, "007"),
    ("", {"sinks": [{"files": {"path": "exports", "format": "json", "mode": "update"}}]}, "007"),
    ("", {"sinks": [{"postgres": {**CRM, "mode": "complete"}}]}, "008"),
    ("", {"run": {"mode": "incremental", "trigger": "5 seconds"}}, "010"),
    ("", {"run": {"trigger": "once"}}, "011"),
    ("", {"run": {"mode": "stream", "trigger": "available_now"}}, "011"),
    ("", {"source": {"delta": {"table": "bronze/raw"}}, **CONTINUOUS_TO_TOPIC}, "012"),
    ("", {"source": {"rate": {}}, **REAL_TIME_TO_TOPIC}, "013"),
    ("", {"run": {"trigger": {"continuous": "1 second"}}}, "014"),
    ("", {**REAL_TIME_TO_TOPIC, "sinks": [{"foreach_batch": {"function": "own:write"}}]}, "014"),
    ("", {**REAL_TIME_TO_TOPIC, "sinks": [{"memory": {"name": "rows"}}]}, "015"),
    ("", {**REAL_TIME_TO_TOPIC, "sinks": [{"kafka": {"topic": "x", "mode": "append"}}]}, "016"),
    ("", {**CONTINUOUS_TO_TOPIC, "sinks": [{"kafka": {"topic": "x", "mode": "complete"}}]}, "017"),
    ("", {**CONTINUOUS_TO_TOPIC, "run": {"mode": "incremental", "trigger": {"continuous": "1 s"}}}, "018"),
    (
        "",
        {
            "sinks": [
                {"delta": {"table": "gold/x", "mode": "replace"}},
                {"kafka": {"topic": "x", "mode": "append"}},
            ]
        },
        "020",
    ),
    (
        "",
        {"sinks": [{"files": {"path": "x", "format": "csv"}}, {"memory": {"name": "m", "mode": "complete"}}]},
        "020",
    ),
    (
        "",
        {"sinks": [{"kafka": {"topic": "x", "where": "a"}}, {"kafka": {"topic": "x", "where": "b"}}]},
        "021",
    ),
    (
        "",
        {
            "source": None,
            "sources": {"orders": {"rate": {}}, "customers": {"kafka": {"topic": "x"}, "as": "table"}},
            "transform": "orders:transform",
        },
        "022",
    ),
    ("", {"payload": {"text": {}}, "source": {"rate": {}}}, "023"),
    (
        "",
        {"source": {"files": {"path": "landing", "format": "json", "schema_evolution": "add_columns"}}},
        "024",
    ),
    (
        "",
        {
            "source": {"files": {"path": "landing", "format": "json", "schema_evolution": "add_columns"}},
            "sinks": [{"files": {"path": "exports/orders", "format": "parquet"}}],
        },
        "025",
    ),
    ("", {**CONTINUOUS_TO_TOPIC, "sinks": [{"foreach": {"writer": "own:Writer"}}]}, "019"),
    ("", {**CONTINUOUS_TO_TOPIC, "sinks": [{"kafka": {"topic": "x"}}, {"console": {}}]}, "026"),
    *[("", {**REAL_TIME_TO_TOPIC, **keys}, "027") for keys in WORKING_ON_BATCHES],
]


@pytest.mark.parametrize(("environment", "keys", "number"), CORPUS)
def test_a_combination_that_cannot_hold_is_refused_with_its_own_id_and_a_way_out(
    project: ConfProject, environment: str, keys: dict[str, Any], number: str
) -> None:
    document = yaml.safe_load(PIPELINE)
    for key in ("payload", "event_time"):
        del document[key]
    document = {key: value for key, value in {**document, **keys}.items() if value is not None}
    project.write("conf/pipelines/orders.yaml", json.dumps(document))
    project.write(
        "conf/environments/local.yaml", environment + "sizes: {small: {}}\n" if environment else ENVIRONMENT
    )
    error = project.refusal()
    assert error.error_id == f"TIDE-MODE-{number}"
    assert error.fix
    assert "orders" in str(error.facts.get("file", error.facts.get("pipeline")))


def test_the_corpus_has_every_refusal_and_the_reference_shows_it() -> None:
    known = [refusal.error_id for refusal in ALL_REFUSALS]
    assert len(set(known)) == len(known)
    assert {f"TIDE-MODE-{number}" for _, _, number in CORPUS} == set(known)
    shown = capabilities_reference()
    assert [
        refusal for refusal in ALL_REFUSALS if f"| {refusal.error_id} | {refusal.what} |" not in shown
    ] == []


def test_the_table_knows_the_sources_sinks_modes_and_triggers_that_there_are() -> None:
    assert set(SOURCES) == set(Source.model_fields)
    assert set(SINKS) == set(Sink.model_fields)
    assert set(TRIGGERS) == set(get_args(Kind))
    named = {name for each in REFUSALS for name in each.source | each.sink | each.trigger}
    assert named <= {*SOURCES, *SINKS, *TRIGGERS}


SOURCE: dict[str, Any] = {
    "kafka": {"topic": "orders"},
    "eventhubs": {"namespace": "plant", "hub": "orders", "auth": {"connection_string": "hub"}},
    "iothub": {"namespace": "iothub-ns-plant", "hub": "orders", "auth": {"connection_string": "hub"}},
    "files": {"path": "landing", "format": "text"},
    "delta": {"table": "bronze/raw"},
    "rate": {},
    "rate_per_batch": {},
    "socket": {"port": 9999},
}
SINK: dict[str, Any] = {
    "delta": {"table": "silver/orders"},
    "files": {"path": "exports", "format": "json"},
    "kafka": {"topic": "copies"},
    "postgres": CRM,
    "foreach_batch": {"function": "own:write"},
    "foreach": {"writer": "own:Writer"},
    "console": {},
    "memory": {"name": "orders"},
}
TRIGGER: dict[str, Any] = {
    "interval": "1 second",
    "available_now": "available_now",
    "once": "once",
    "continuous": {"continuous": "1 second"},
    "real_time": {"real_time": "5 minutes"},
}
ENVIRONMENTS: dict[str, dict[str, Any]] = {"local": {}, "kubernetes": yaml.safe_load(CLUSTER)}


def test_every_combination_is_enforced_as_the_table_says(tmp_path: Path) -> None:
    wrong = []
    runs = ("stream", "incremental")
    cells = product(ENVIRONMENTS, SOURCES, runs, TRIGGERS, [(s, m) for s in SINKS for m in SINKS[s].modes])
    for runtime, source, run, trigger, (sink, mode) in cells:
        cell = Cell(runtime, source, run, trigger, sink, mode)
        # A refusal by every environment is found first, whatever the order of the table.
        expected = {each.error_id for each in REFUSALS if each.fits(cell)} or {None}
        if _found(tmp_path, cell) not in expected:
            wrong.append(cell)
    assert wrong == []


# Other keys that a table needs with a mode.
FEED = {"key": ["id"], "cdc": {"sequence_by": "number"}}
BESIDE: dict[str, dict[str, Any]] = {"merge": {"key": ["id"]}, "scd1": FEED, "scd2": FEED}


def _found(folder: Path, cell: Cell) -> str | None:
    try:
        pipeline = declared(
            folder,
            environment=ENVIRONMENTS[cell.runtime],
            source={cell.source: SOURCE[cell.source]},
            sinks=[{cell.sink: {**SINK[cell.sink], "mode": cell.mode, **BESIDE.get(cell.mode, {})}}],
            run={"mode": cell.run, "trigger": TRIGGER[cell.trigger]},
        )
        check_here(pipeline)
    except ValidationError as error:
        [detail] = error.errors()
        refused = detail["ctx"]["error"]
        assert isinstance(refused, RefusedError)
        return refused.refusal.error_id
    except SpecError as error:
        return error.error_id
    return None


def test_a_run_by_hand_in_another_mode_is_checked_too(tmp_path: Path) -> None:
    pipeline = declared(tmp_path, source={"socket": {"port": 9}}, sinks=[{"console": {}}])
    check_here(pipeline, "stream")
    with pytest.raises(SpecError) as refused:
        check_here(pipeline, "incremental")
    assert refused.value.error_id == "TIDE-MODE-003"
    # Keys for the other mode do not count in this one.
    assert pipeline.spec.run.trigger_of("incremental") == "available_now"


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("availableNow", "available_now"),
        ("ones", "once"),
        ({"realTime": "1 s"}, "real_time"),
        ("10", "duration"),
        ({"continuous": "50 milliseconds"}, "at least 100 milliseconds"),
        ({"real_time": "4 seconds"}, "at least 5 seconds"),
    ],
)
def test_a_trigger_in_other_words_is_refused_with_ours(project: ConfProject, written: Any, near: str) -> None:
    project.replace("trigger: 5 seconds", f"trigger: {json.dumps(written)}")
    error = project.refusal()
    assert (error.error_id, error.facts["key"]) == ("TIDE-SPEC-003", "run.trigger")
    assert near in error.problem


def test_a_trigger_reads_as_it_is_written(tmp_path: Path) -> None:
    for kind, written in TRIGGER.items():
        asked = {"mode": TRIGGERS[kind].run, "trigger": written}
        run = declared(tmp_path, run=asked, sinks=[{"console": {}}]).spec.run
        assert (run.own_trigger.kind, run.model_dump(mode="json", by_alias=True)["trigger"]) == (
            kind,
            written,
        )


def test_a_missing_trigger_means_as_fast_as_possible_or_available_now(tmp_path: Path) -> None:
    stream = declared(tmp_path).spec.run
    assert (stream.own_trigger, stream.trigger) == (Trigger("interval", timedelta()), timedelta())
    incremental = declared(tmp_path, run={"mode": "incremental"}).spec.run
    assert incremental.own_trigger.kind == "available_now"
    assert [stream.trigger_of(mode) for mode in ("stream", "incremental", "backfill")] == [
        "interval",
        "available_now",
        "available_now",
    ]
