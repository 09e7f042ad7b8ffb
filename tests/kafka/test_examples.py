"""The documents' own examples: each gives the rows that plain Python gives, and wrong forms are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from examples.proofs.catalogue import EXAMPLES
from examples.proofs.example import Example
from examples.proofs.run import prepare, run_example
from examples.proofs.stage import Stage
from tests.support.kafka import Kafka

RUNNING = [example for example in EXAMPLES if example.proof is not None]


@pytest.fixture(scope="module")
def stage(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    kafka: Kafka,
) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("examples"), spark, kafka.bootstrap_servers)
    here = [item for item in request.session.items if item.path == request.path]
    prepare(stage, [item.callspec.params["example"] for item in here if isinstance(item, pytest.Function)])
    yield stage
    stage.close()


@pytest.mark.parametrize("example", RUNNING, ids=lambda example: f"{example.number}-{example.document}")
def test_an_example_of_the_documents_gives_its_rows(stage: Stage, example: Example) -> None:
    results = run_example(stage, example)
    assert results
    assert [(result.what, result.seen) for result in results] == [
        (result.what, result.wanted) for result in results
    ]
    assert all(result.agrees for result in results)
