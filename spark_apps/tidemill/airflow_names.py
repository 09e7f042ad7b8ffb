"""Names of DAGs, assets, a pool and the Streams page in Airflow.

Pinned by `tests/unit/test_names.py`, because users, links and schedules depend on them.
"""

from __future__ import annotations

STREAMS_DAG_ID = "tidemill_streams"
# Not just `backfill`, because Airflow uses that name for its own runs of the past, in its pages and in
# `airflow backfill`.
BACKFILL_DAG_ID = "tidemill_backfill"

# Emits asset events for the commits of streams.
STREAM_ASSETS_DAG_ID = "stream_assets"

CHECKPOINT_HYGIENE_DAG_ID = "checkpoint_hygiene"
TABLE_MAINTENANCE_DAG_ID = "table_maintenance"
GAME_DAY_DAG_ID = "game_day"
SHADOW_RUN_DAG_ID = "shadow_run"

# Airflow's pool of the tasks that run drivers, and the variable in which the deployment names it.
DRIVER_POOL = "tidemill_drivers"
DRIVER_POOL_VARIABLE = "TIDEMILL_POOL"

# The DAG run that started a driver, as DAG and run; added to each line of the driver's log.
DAG_RUN_VARIABLE = "TIDEMILL_DAG_RUN"


def asset_uri(table: str, beside: str = "") -> str:
    """Return the asset URI of a table, e.g. `tidemill://tables/silver/orders`, or `tidemill://test/tables/…`.

    Args:
        table: The table.
        beside: Name of a second environment in the same Airflow.
    """
    return f"tidemill://{beside}/tables/{table}" if beside else f"tidemill://tables/{table}"


def streams_asset_uri(beside: str = "") -> str:
    """Return the asset URI of all streams of an environment together."""
    return f"tidemill://{beside}/streams" if beside else "tidemill://streams"


def name_beside(name: str, beside: str = "") -> str:
    """Return the name of a DAG or asset: `tidemill_streams`, or `test.tidemill_streams` if second."""
    return f"{beside}.{name}" if beside else name


# The Streams page, below the address of Airflow.
STREAMS_PAGE = "/tidemill/"


def streams_page_path(pipeline: str) -> str:
    """Return the path of a pipeline in the Streams page, below the address of Airflow."""
    return f"{STREAMS_PAGE}#/pipelines/{pipeline}"


def stream_dag_id(pipeline: str) -> str:
    """Return the id of the DAG with the actions on one stream."""
    return f"stream__{pipeline}"


def incremental_dag_id(pipeline: str) -> str:
    """Return the id of the DAG of a scheduled incremental pipeline."""
    return f"incremental__{pipeline}"


def checkpoint_dag_id(verb: str) -> str:
    """Return the id of the DAG of a `checkpoint` operation."""
    return f"checkpoint__{verb}"
