"""The process from which Spark forks Python workers: it has imported what each of them needs.

Spark's own imports nothing, and each worker spends more than a second of a core on that: at a driver's start,
and after each task whose Python has failed. Two threads run when it forks, of OpenBLAS and of jemalloc. Both
libraries start them again in the child.
"""

from __future__ import annotations

# pyarrow imports pandas with the first array that it makes.
import pandas  # type: ignore[import-untyped]  # noqa: F401  # no stubs
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tidemill.payload.decode
import tidemill.sinks.part_files  # noqa: F401
from tidemill.payload.arrow_pass import freeze_modules

if __name__ == "__main__":
    # Workers share the memory of what their collector never looks at.
    freeze_modules()
    manager()
