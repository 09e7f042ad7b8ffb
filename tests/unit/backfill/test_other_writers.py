"""Other writers of a table: from declarations, and from its ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from tests.support.commits import commit_of
from tidemill.backfill.other_writers import OtherWriter, other_writers
from tidemill.ledger.entry import OffsetRange
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import Project

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture
def orders(tmp_path: Path) -> Pipeline:
    (tmp_path / "conf/environments").mkdir(parents=True)
    (tmp_path / "conf/environments/local.yaml").write_text(
        "{runtime: local, root: data, kafka: {bootstrap_servers: 'localhost:1'}}"
    )
    declare(tmp_path, "orders", {"kafka": {"topic": "orders"}})
    return resolve_pipeline(load_environment(Project(tmp_path), "local", {}), "orders")


def declare(folder: Path, name: str, source: dict[str, Any], table: str = "bronze/orders") -> None:
    document = {
        "description": "A test.",
        "owner": "tests",
        "source": source,
        "sinks": [{"delta": {"table": table}}],
    }
    (folder / "conf/pipelines").mkdir(parents=True, exist_ok=True)
    (folder / f"conf/pipelines/{name}.yaml").write_text(yaml.safe_dump(document))


def has_written(orders: Pipeline, pipeline: str, end: Any, batch_id: int = 0) -> None:
    log = TableLog(orders.layout.table("bronze/orders"))
    log.create(COLUMNS)
    commit = commit_of(batch_id, pipeline=pipeline)
    sources = {"source": OffsetRange(start=None, end=end)}
    entry = commit.entry.model_copy(update={"sources": sources})
    log.commit([], BatchCommit(commit.app_id, batch_id, entry), COLUMNS)


def test_a_table_of_its_own_has_no_other_writer(tmp_path: Path, orders: Pipeline) -> None:
    declare(tmp_path, "payments", {"kafka": {"topic": "orders"}}, "bronze/payments")
    has_written(orders, "orders", {"orders": {"0": 10}})
    assert other_writers(orders) == []


def test_a_pipeline_that_declares_the_table_is_one(tmp_path: Path, orders: Pipeline) -> None:
    declare(tmp_path, "copy", {"kafka": {"topics": ["orders", "returns"]}})
    declare(tmp_path, "loaded", {"files": {"path": "landing", "format": "text"}})
    declare(tmp_path, "matching", {"kafka": {"pattern": "orders.*"}})
    assert other_writers(orders) == [
        OtherWriter("copy", "bronze/orders", frozenset({"orders", "returns"})),
        OtherWriter("loaded", "bronze/orders", None),
        OtherWriter("matching", "bronze/orders", None),
    ]


def test_a_pipeline_that_is_not_declared_any_more_is_known_by_the_ledger(orders: Pipeline) -> None:
    has_written(orders, "removed", {"orders": {"0": 10}})
    has_written(orders, "removed", {"returns": {"0": 10}}, 1)
    has_written(orders, "files", {"logOffset": 3})
    assert sorted(other_writers(orders), key=lambda other: other.pipeline) == [
        OtherWriter("files", "bronze/orders", None),
        OtherWriter("removed", "bronze/orders", frozenset({"orders", "returns"})),
    ]


def test_a_file_that_cannot_be_read_hides_nobody(tmp_path: Path, orders: Pipeline) -> None:
    (tmp_path / "conf/pipelines/broken.yaml").write_text("source: [")
    declare(tmp_path, "copy", {"kafka": {"topic": "orders"}})
    assert [other.pipeline for other in other_writers(orders)] == ["copy"]
