"""Models of scikit-learn and of Spark ML score the rows of every mode alike, and the ledger names them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.lake import Lake, LakePipeline
from tests.support.model_registry import FakeModelRegistry, model_registry
from tests.support.running_stream import running_stream
from tests.support.saved_models import save_line, save_threshold
from tidemill.checkpoint.gate import examine, gather_facts
from tidemill.engine.model_files import digest_of

START = datetime(2024, 1, 1, tzinfo=UTC)
END = START + timedelta(hours=1)
AMOUNTS = [1.0, 20.0, 60.0, 150.0]

TRANSFORM = """
from pyspark.sql import functions as F

def transform(payments, fraud, price):
    scored = fraud.predict(payments).withColumnRenamed("prediction", "fraud")
    return price.predict(scored).select("id", "at", "fraud", F.round("prediction", 3).alias("price"))
"""


@pytest.fixture
def registry() -> Iterator[FakeModelRegistry]:
    with model_registry() as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path, spark: Any, registry: FakeModelRegistry) -> Lake:
    return Lake(tmp_path / "lake", spark, environment={"model_registry": {"url": registry.url}})


def declare(lake: Lake, name: str, **models: Any) -> LakePipeline:
    schema = "id string, at timestamp, amount double"
    files = {"path": "landing/payments", "format": "json", "schema": schema, "max_files_per_batch": 1}
    return lake.pipeline(
        name,
        source={"files": files},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform=lake.transform("scored", TRANSFORM),
        models=models,
        sinks=[{"delta": {"table": f"silver/{name}", "time": "at"}}],
        run={"mode": "incremental"},
    )


def land(lake: Lake, name: str, minute: int) -> None:
    at = (START + timedelta(minutes=minute)).isoformat()
    rows = [{"id": f"{name}{number}", "at": at, "amount": amount} for number, amount in enumerate(AMOUNTS)]
    lake.land_rows(f"landing/payments/{name}.json", rows)


def scored(lake: Lake, name: str) -> list[tuple[str, int, float]]:
    found = lake.rows(f"silver/{name}") if lake.data_files(f"silver/{name}") else []
    return sorted((row["id"], row["fraud"], row["price"]) for row in found)


def expected(limits: dict[str, float]) -> list[tuple[str, int, float]]:
    """By file: what is above the limit is fraud; the price is three times the amount."""
    numbered = list(enumerate(AMOUNTS))
    return sorted(
        (f"{name}{number}", int(amount > limit), 3 * amount)
        for name, limit in limits.items()
        for number, amount in numbered
    )


def models_used(lake: Lake, name: str) -> list[tuple[str | None, str | None]]:
    """Versions in the ledger, of `fraud` and of `price`, oldest commit first."""
    entries = [commit.entry for commit in reversed(lake.ledger(f"silver/{name}")) if commit.entry]
    used = [entry.code.models or {} for entry in entries]
    return [(models["fraud"].version, models["price"].digest) for models in used]


def test_every_mode_scores_alike_and_the_ledger_tells_when_an_alias_was_moved(
    lake: Lake, registry: FakeModelRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.versions["fraud"] = [save_threshold(tmp_path / f"v{n}", n * 50.0) for n in (1, 2)]
    registry.aliases["fraud", "champion"] = 1
    line = digest_of(save_line(lake.spark, lake.root / "models/price", 3.0))
    fraud = {"uri": "models:/fraud@champion"}
    models = {"fraud": fraud, "price": {"path": "models/price", "digest": line}}
    live = declare(lake, "live", **models)
    land(lake, "a", 0)
    live.run_incremental()
    assert scored(lake, "live") == expected({"a": 50})
    # A stream goes on from there, with the model that it found at its start.
    land(lake, "b", 1)
    with running_stream(live) as stream:
        stream.wait_until(lambda: len(scored(lake, "live")) == 8, "the second file is in the table")
        registry.aliases["fraud", "champion"] = 2
        land(lake, "c", 2)
        stream.wait_until(lambda: len(scored(lake, "live")) == 12, "the third file is in the table")
        stream.drain()
    assert scored(lake, "live") == expected({"a": 50, "b": 50, "c": 50})
    # The next start finds the other one, and the gate says so to whoever starts it.
    started = live.started
    told = [f for f in examine(gather_facts(lake.store, started, "g0001")) if f.severity == "warning"]
    assert [finding.finding_id for finding in told] == ["TIDE-CKPT-094"]
    changed: Any = told[0].facts["changed"]
    assert list(changed) == ["model fraud"]
    assert "version 1" in changed["model fraud"].partition(" -> ")[0]
    assert "version 2" in changed["model fraud"].partition(" -> ")[2]
    land(lake, "d", 3)
    live.run_incremental()
    assert scored(lake, "live") == expected({"a": 50, "b": 50, "c": 50, "d": 100})
    assert models_used(lake, "live") == [*3 * [("1", line)], ("2", line)]
    commits = CommandLine(lake.folder, capsys.readouterr).json("ledger", "live")
    assert [found["entry"]["code"]["models"]["fraud"]["version"] for found in commits] == ["2", *3 * ["1"]]
    # A backfill scores by the model of today, and verifies against what stands.
    plan = live.plan(START.isoformat(), END.isoformat())
    found = live.verify(plan)["silver/live"]
    assert (found.missing, found.surplus) == (3, 3)
    live.apply(plan)
    assert scored(lake, "live") == expected(dict.fromkeys("abcd", 100))
    assert models_used(lake, "live")[-1] == ("2", line)
    assert all(found.is_none for found in live.verify(plan).values())
