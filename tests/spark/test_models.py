"""Models of scikit-learn and of Spark ML score the rows of every mode alike, and the ledger names them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.lake import Lake, LakePipeline
from tests.support.model_registry import FakeModelRegistry, model_registry
from tests.support.running_stream import running_stream
from tests.support.saved_models import LINE, save_threshold
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
    """Return the rows of each file. Amounts above the limit are fraud; the price is triple the amount."""
    numbered = list(enumerate(AMOUNTS))
    return sorted(
        (f"{name}{number}", int(amount > limit), 3 * amount)
        for name, limit in limits.items()
        for number, amount in numbered
    )


def models_used(lake: Lake, name: str) -> list[tuple[str | None, str | None]]:
    """Return versions in the ledger, of `fraud` and of `price`, oldest commit first."""
    entries = [commit.entry for commit in reversed(lake.ledger(f"silver/{name}")) if commit.entry]
    used = [entry.code.models or {} for entry in entries]
    return [(models["fraud"].version, models["price"].digest) for models in used]


def test_every_mode_scores_alike_and_the_ledger_tells_when_an_alias_was_moved(
    lake: Lake, registry: FakeModelRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.versions["fraud"] = [save_threshold(tmp_path / f"v{n}", n * 50.0) for n in (1, 2)]
    registry.aliases["fraud", "champion"] = 1
    line = digest_of(shutil.copytree(LINE, lake.root / "models/price"))
    fraud = {"uri": "models:/fraud@champion"}
    models = {"fraud": fraud, "price": {"path": "models/price", "digest": line}}
    live = declare(lake, "live", **models)
    land(lake, "a", 0)
    # A stream continues with the model that it found at its start.
    with running_stream(live) as stream:
        stream.wait_until(lambda: len(scored(lake, "live")) == 4, "the first file is in the table")
        registry.aliases["fraud", "champion"] = 2
        land(lake, "b", 1)
        stream.wait_until(lambda: len(scored(lake, "live")) == 8, "the second file is in the table")
        stream.drain()
    assert scored(lake, "live") == expected({"a": 50, "b": 50})
    # The next start finds the other model, and the gate reports it.
    told = {
        found.finding_id: found.facts for found in examine(gather_facts(lake.store, live.started, "g0001"))
    }
    changed: Any = told["TIDE-CKPT-094"]["changed"]
    assert list(changed) == ["model fraud"]
    assert "version 1" in changed["model fraud"].partition(" -> ")[0]
    assert "version 2" in changed["model fraud"].partition(" -> ")[2]
    land(lake, "c", 2)
    live.run_incremental()
    assert scored(lake, "live") == expected({"a": 50, "b": 50, "c": 100})
    assert models_used(lake, "live") == [("1", line), ("1", line), ("2", line)]
    commits = CommandLine(lake.folder, capsys.readouterr).json("ledger", "live")
    assert [found["entry"]["code"]["models"]["fraud"]["version"] for found in commits] == ["2", "1", "1"]
    # A backfill and its verification apply the model of today.
    past = declare(lake, "past", **models)
    plan = past.plan(START.isoformat(), END.isoformat())
    past.apply(plan)
    assert scored(lake, "past") == expected(dict.fromkeys("abc", 100))
    assert set(models_used(lake, "past")) == {("2", line)}
    assert past.verify(plan)["silver/past"].is_none
    registry.aliases["fraud", "champion"] = 1
    found = past.verify(plan)["silver/past"]
    assert (found.missing, found.surplus) == (3, 3)
