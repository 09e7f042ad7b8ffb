"""The maximum depth of nested columns, so that every reader opens a table."""

from __future__ import annotations

# Maximum number of structs, arrays and maps inside of each other. Found by experiment with deltalake 1.6.6
# and Spark 4.2: Spark makes a table with 42 structs in each other, and deltalake never opens it again,
# because its parser of the log stops at 128 levels of JSON, of which each struct takes 3. It does not read 31
# maps, or 50 arrays, back from Parquet. tests/spark/test_deep_columns.py repeats the experiment.
MAX_LEVELS = 30
