from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.airflow_server import Airflow, airflow_server


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    with airflow_server(tmp_path_factory.mktemp("airflow")) as running:
        yield running
