"""Assignment of test files to the processes of `make test`.

One process starts Spark only when no other work is left.

Each session and each broker costs half a minute of a core until it is warm, and more sessions than cores
evict each other from the caches. For nine files of tests/spark, two processes took 146 s (240 s of CPU) and
three took 169 s (315 s), one after the other on one machine. The third process uses the capacity that two
leave idle.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # xdist has no types
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

WITH_A_SESSION = ("tests/spark/", "tests/kafka/")


class FewSessions(LoadFileScheduling):  # type: ignore[misc]
    """A file stays together, as with `--dist loadfile`; the first process takes files without Spark first."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node is self.nodes[0]:
            others = (file for file in self.workqueue if not file.startswith(WITH_A_SESSION))
            if (file := next(others, None)) is not None:
                self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
