"""The Airflow pool that limits the drivers of tasks."""

from __future__ import annotations

import pytest

from tidemill.airflow_names import DRIVER_POOL, DRIVER_POOL_VARIABLE
from tidemill_airflow.driver_pool import driver_pool


@pytest.mark.parametrize(
    ("variables", "pool"),
    [
        ({DRIVER_POOL_VARIABLE: DRIVER_POOL}, DRIVER_POOL),
        ({DRIVER_POOL_VARIABLE: "of_the_team"}, "of_the_team"),
        # A task whose pool does not exist would never be scheduled, and no page would say so.
        ({}, "default_pool"),
        ({DRIVER_POOL_VARIABLE: ""}, "default_pool"),
    ],
)
def test_the_pool_is_the_one_that_somebody_made_and_named(variables: dict[str, str], pool: str) -> None:
    assert driver_pool(variables) == pool
