"""The process from which Spark forks Python workers, with their imports already loaded.

Spark's own daemon imports nothing, so each worker spends more than a second of a core on imports: at a
driver's start, and after each task whose Python has failed. Two threads run at the fork, one of OpenBLAS and
one of jemalloc. Both libraries start them again in the child.
"""

from __future__ import annotations

# Imported here, because pyarrow imports pandas when it creates the first array.
import pandas  # type: ignore[import-untyped]  # noqa: F401  # no stubs
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tidemill.payload.decode
import tidemill.sinks.part_files  # noqa: F401
from tidemill.payload.arrow_pass import freeze_modules

if __name__ == "__main__":
    # Workers share memory pages that their garbage collector never touches.
    freeze_modules()
    manager()
