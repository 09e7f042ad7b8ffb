"""The fake driver with the real gate and real batches. After an operation it must be able to continue.

Before its first batch it asks the gate like an engine's driver, and exits the same way if the gate refuses.
Then it writes one batch as `PaperBatches` does. It adds these behaviours to those of the fake driver:

    ends ERROR N     leaves a receipt with exit code N and the error's id before the first batch
    waits ERROR      reports that it waits because of this error, until the behaviour file changes
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from tests.support.eventually import eventually
from tests.support.fake_driver import FakeDriver, standing_in
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.control.driver_command import DriverRun
from tidemill.engine.arguments import parse_arguments
from tidemill.errors import TidemillError
from tidemill.spec.project import Environment, resolve_pipeline


def paper_driver_command(environment: Environment, run: DriverRun) -> list[str]:
    """Return the real command line, with this module for the engine's driver."""
    return standing_in(environment, run, "tests.support.paper_driver")


class PaperDriver(FakeDriver):
    def main(self) -> int:
        behaviour = self.behaviour()
        if behaviour.startswith("ends "):
            _, error_id, code = behaviour.split()
            self.error = error(error_id)
            return self.receipt("failed", int(code))
        if behaviour.startswith("waits "):
            self.epoch = claim_epoch(self.store, self.environment.layout, self.run.pipeline, self.run.run_id)
            self.status("waiting", error=error(behaviour.split()[1]))
            gone = eventually(lambda: self.drain.is_set() or self.behaviour() != behaviour, "it may go on")
            assert gone
        return super().main()

    def stream(self, behaviour: str) -> int:
        if behaviour not in ("run", "idle"):
            return super().stream(behaviour)
        # Loads Arrow, which a driver that only waits or ends does not need.
        from tests.support.paper_batches import PaperBatches

        batches = PaperBatches(resolve_pipeline(self.environment, self.run.pipeline))
        try:
            batches.admit()
            if behaviour == "idle":
                return super().stream(behaviour)
            number = batches.run(self.run.run_id, self.epoch or 0)
        except TidemillError as refused:
            self.error = error(refused.error_id, refused.problem, refused.fix, refused.runbook)
            return self.receipt("failed", refused.exit_code)
        said = {"batch_id": number, "generation": batches.generation, "batch_milliseconds": 7}
        self.progressed_at = datetime.now(UTC)
        self.status("running", batch_committed_at=self.progressed_at, **said)
        self.drain.wait()
        self.status("draining", **said)
        return self.receipt("clean", 0)

    def bounded(self, behaviour: str) -> int:
        """Run one batch, a new or a planned one. Other behaviours are the fake driver's."""
        if behaviour != "run" or self.run.mode == "backfill":
            return super().bounded(behaviour)
        from tests.support.paper_batches import PaperBatches

        batches = PaperBatches(resolve_pipeline(self.environment, self.run.pipeline))
        batches.admit()
        batches.run(self.run.run_id, self.epoch or 0)
        return self.receipt("clean", 0)

    def behaviour(self) -> str:
        return self.behaviour_file.read_text() if self.behaviour_file.exists() else "run"


def error(
    error_id: str, problem: str = "As the test wants.", fix: str = "", runbook: str = ""
) -> dict[str, str]:
    return {"id": error_id, "problem": problem, "fix": fix, "runbook": runbook}


if __name__ == "__main__":
    sys.exit(PaperDriver(parse_arguments()).main())
