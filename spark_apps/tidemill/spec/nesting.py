"""The maximum depth of nested columns, so that every reader opens a table."""

from __future__ import annotations

# Maximum nesting of structs, arrays and maps. Found by experiment with deltalake 1.6.6 and Spark 4.2. Spark
# creates a table with 42 nested structs, which deltalake cannot open, because its log parser stops at 128
# JSON levels and each struct takes 3. It cannot read 31 nested maps or 50 nested arrays from Parquet.
# tests/spark/test_deep_columns.py repeats the experiment.
MAX_LEVELS = 30
