"""Tidemill: PySpark streams, incremental runs and backfills from one declaration."""

__version__ = "0.1.0"
