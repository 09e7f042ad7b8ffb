"""Drills on a copy: a fault or a procedure, and the time until its stream is proven to run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.control.ask.proof import Proof
from tidemill.control.ask.run_id import new_run_id
from tidemill.control.ask.stream_request import StreamRequest, Verb, carry_out
from tidemill.control.game_day.backfill_drill import backfill_newest
from tidemill.control.game_day.copy import Copy
from tidemill.control.game_day.rule import DrillResult, NotPossibleError, NotProvenError
from tidemill.control.procedures import parts
from tidemill.control.procedures.by_hand import back_up
from tidemill.control.procedures.parts import VerbParts
from tidemill.control.procedures.run import Asking, act, plan_verb
from tidemill.errors import TidemillError

# Seconds from a request to its proof, in addition to the environment's grace period: a cold start on a busy
# machine.
PROOF_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class Drills:
    """The drills on one copy.

    Args:
        copy: The copy.
        asking: The requester; operations of the drills have the same requester.
        tell: Called with each step.
    """

    copy: Copy
    asking: Asking
    tell: Callable[[str], None]

    def do(self, drill: str) -> DrillResult:
        """Run and measure one drill; its failure is a result."""
        steps: Mapping[str, Callable[[], str]] = {
            "start": self._start,
            "kill": self._kill,
            "drain": self._drain,
            "rewind": self._rewind,
            "restore": self._restore,
            "backfill": self._backfill,
        }
        begun = time.monotonic()

        def result(outcome: str, told: object) -> DrillResult:
            return DrillResult(drill, outcome, round(time.monotonic() - begun, 3), str(told))  # type: ignore[arg-type]

        try:
            return result("recovered", steps[drill]())
        except NotPossibleError as reason:
            return result("not possible", reason)
        except (NotProvenError, TidemillError) as error:
            return result("failed", error)

    def _start(self) -> str:
        return self._ask("start").message

    def _kill(self) -> str:
        """Kill the driver with its JVM, and start another one."""
        driver = self.copy.plane.running(self._name)
        if driver is None:
            raise NotProvenError("no driver runs that could be killed")
        self.copy.plane.runtime.kill(driver)
        return self._start()

    def _drain(self) -> str:
        """Drain the driver, which ends with a receipt, and start another one."""
        self._stop()
        return self._start()

    def _rewind(self) -> str:
        """Rewind the newest batch with its rows, and process it again."""
        batch = self._newest_batch()
        if batch < 1:
            raise NotPossibleError("the copy has no earlier batch to go back to")
        self._stop()
        self._verb("rewind", parts.rewind(self.copy.pipeline, str(batch - 1)), "--to", str(batch - 1))
        return self._start()

    def _restore(self) -> str:
        """Replace the checkpoint by a backup, and continue from it."""
        manifest = back_up(self.copy.plane, self._named("backup"), self.copy.pipeline)
        self._stop()
        self._verb("restore", parts.restore(self.copy.pipeline, manifest.backup), manifest.backup)
        return self._start()

    def _backfill(self) -> str:
        """Recompute and replace the rows of the newest batch while the stream runs."""
        return backfill_newest(self.copy, self.tell)

    @property
    def _name(self) -> str:
        return self.copy.pipeline.name

    def _newest_batch(self) -> int:
        plane = self.copy.plane
        live = read_or_create_current(plane.store, plane.layout, self._name)
        path = plane.layout.checkpoint(self._name, live.generation)
        found = CheckpointBatches(plane.store, path).last_committed()
        return -1 if found is None else found

    def _stop(self) -> None:
        proof = self._ask("stop")
        if proof.evidence.get("result") != "clean":
            raise NotProvenError(f"the driver did not drain: {proof.message}")

    def _ask(self, verb: Verb) -> Proof:
        now, plane = datetime.now(UTC), self.copy.plane
        request = StreamRequest(
            self._name, verb, new_run_id("game-day", now), now, self.asking.asker, "game day"
        )
        patience = plane.environment.spec.grace_period.total_seconds() + PROOF_TIMEOUT_SECONDS
        proof = carry_out(plane, request, patience, self.tell)
        if proof.state != "done":
            raise NotProvenError(proof.message)
        return proof

    def _verb(self, verb: str, made: VerbParts, *words: str) -> None:
        asking = self._named(verb, *words)
        act(self.copy.plane, asking, plan_verb(asking, made, self._name))

    def _named(self, verb: str, *words: str) -> Asking:
        return replace(self.asking, verb=verb, words=words, request_id="")
