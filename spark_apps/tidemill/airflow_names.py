"""What Airflow knows things by: DAGs, assets, a pool and the Streams page.

Pinned by `tests/unit/test_names.py`: people, links and schedules depend on it.
"""

from __future__ import annotations

STREAMS_DAG_ID = "tidemill_streams"
# Airflow calls its own runs of the past backfills, in its pages and by `airflow backfill`.
BACKFILL_DAG_ID = "tidemill_backfill"

# Tells what streams have committed, as events of their tables' assets.
STREAM_ASSETS_DAG_ID = "stream_assets"

CHECKPOINT_HYGIENE_DAG_ID = "checkpoint_hygiene"
TABLE_MAINTENANCE_DAG_ID = "table_maintenance"
GAME_DAY_DAG_ID = "game_day"
SHADOW_RUN_DAG_ID = "shadow_run"

# Airflow's pool of the tasks that run drivers, and the variable by which whoever made it says so.
DRIVER_POOL = "tidemill_drivers"
DRIVER_POOL_VARIABLE = "TIDEMILL_POOL"

# Tells a driver which DAG run has started it, as DAG and run: each line of its log says so.
DAG_RUN_VARIABLE = "TIDEMILL_DAG_RUN"


def asset_uri(table: str, beside: str = "") -> str:
    """Airflow Asset of a table, e.g. `tidemill://tables/silver/orders`, or `tidemill://test/tables/…`.

    Args:
        table: The table.
        beside: Name of an environment that stands beside another one in the same Airflow.
    """
    return f"tidemill://{beside}/tables/{table}" if beside else f"tidemill://tables/{table}"


def streams_asset_uri(beside: str = "") -> str:
    """The asset that stands for all streams of an environment together."""
    return f"tidemill://{beside}/streams" if beside else "tidemill://streams"


def name_beside(name: str, beside: str = "") -> str:
    """Name of a DAG or asset, e.g. `tidemill_streams`, or `test.tidemill_streams` of a second environment."""
    return f"{beside}.{name}" if beside else name


# The Streams page, below the address of Airflow.
STREAMS_PAGE = "/tidemill/"


def streams_page_path(pipeline: str) -> str:
    """A pipeline's part of the Streams page, below the address of Airflow."""
    return f"{STREAMS_PAGE}#/pipelines/{pipeline}"


def stream_dag_id(pipeline: str) -> str:
    """DAG of the actions on one stream."""
    return f"stream__{pipeline}"


def incremental_dag_id(pipeline: str) -> str:
    """DAG of a scheduled incremental pipeline."""
    return f"incremental__{pipeline}"


def checkpoint_dag_id(verb: str) -> str:
    """DAG of a verb of `checkpoint`."""
    return f"checkpoint__{verb}"
