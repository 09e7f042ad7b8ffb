"""Ends of drivers, derived from the receipt or from its absence."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status, read_status
from tidemill.control.runtime import StartedDriver
from tidemill.errors import FencedError
from tidemill.names import Layout
from tidemill.storage.store import Store

# Maximum receipts to search for one run, newest first. A backfill next to a stream adds a handful.
SEARCHED_RECEIPTS = 50

# Error of a start that was refused because of a hold.
HELD = "TIDE-CKPT-029"
# Exit codes from this value on mean that a signal ended the process: 137 is SIGKILL.
FIRST_SIGNAL = 128

Result = Literal["clean", "forced", "failed", "killed", "not_made"]


class Ending(BaseModel):
    """The end of one start of a driver.

    - `killed`: it left no receipt and no exit code (SIGKILL, out of memory, power loss); `termination` has
      the runtime's information about it.
    - `not_made`: its process or pod could not be created.
    - `progressed`: it committed a batch, or found nothing to read.
    - `committed`: it committed a batch.
    - `stopped_early`: it was a bounded run that was asked to stop before it had finished.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    digest: str
    started_at: datetime
    ended_at: datetime
    result: Result
    exit_code: int | None = None
    progressed: bool = False
    committed: bool = False
    epoch: int | None = None
    error: dict[str, Any] | None = None
    termination: str = ""
    stopped_early: bool = False

    @property
    def is_finished(self) -> bool:
        """Return True if it finished its work; for a stream, if it ended because of a stop request."""
        return self.result == "clean" and self.exit_code == 0 and not self.stopped_early

    @property
    def was_held(self) -> bool:
        """Return True if the start was refused only because of a hold."""
        return (self.error or {}).get("id") == HELD

    @property
    def lived(self) -> timedelta:
        """Return the minimum run time; a killed driver ends with its last sign of life."""
        return self.ended_at - self.started_at

    @property
    def cause(self) -> str:
        """Return the cause in a few words."""
        if self.result == "killed":
            return "killed without a receipt" + (f": {self.termination}" if self.termination else "")
        if self.result == "not_made":
            return f"it could not be made{self._told}"
        if self.stopped_early:
            return "stopped before it had finished"
        if self.result == "forced":
            return "stopped, and its batch cut off"
        if self.error is None and self.termination:
            return self.termination
        return f"exit {self.exit_code}{self._told}"

    @property
    def runbook(self) -> str:
        """Return the runbook page of its error."""
        return str((self.error or {}).get("runbook") or "")

    @property
    def _told(self) -> str:
        error = self.error or {}
        words = " ".join(str(error[key]) for key in ("id", "problem") if error.get(key)) or self.termination
        return f", {words}" if words else ""


def ending_of(store: Store, layout: Layout, start: StartedDriver) -> Ending:
    """Return the end of a driver that no longer runs."""
    receipt = find_receipt(store, layout, start)
    status = read_status(store, layout, start.pipeline)
    return conclude(start, receipt, status)


def find_receipt(store: Store, layout: Layout, start: StartedDriver) -> Receipt | None:
    """Return the receipt of exactly this start; None if it was killed.

    A fenced-off pod stays fenced off. When the kubelet restarts its container, the new process leaves no
    receipt (engine/driver_pod.py), so the receipt of the fenced-off driver counts for it.
    """
    folder = layout.receipts(start.pipeline)
    # One time is from the control plane's clock, the other may be from a node's clock.
    oldest = min(start.claimed_at, start.started_at)
    for name in reversed(store.list_names(folder)[-SEARCHED_RECEIPTS:]):
        document = store.read_json(f"{folder}/{name}")
        receipt = None if document is None else Receipt.model_validate(document)
        if receipt is None:
            continue
        if receipt.stopped_at < oldest:
            return None
        if receipt.run_id == start.run_id:
            speaks = receipt.stopped_at >= start.started_at or receipt.exit_code == FencedError.exit_code
            return receipt if speaks else None
    return None


def conclude(start: StartedDriver, receipt: Receipt | None, status: Status | None) -> Ending:
    """Return the ending that the documents show; a status of another start is ignored."""
    own = status if status is not None and is_status_of(status, start) else None
    result, exit_code = _result(start, receipt, own)
    signs_of_life = [start.started_at] + ([own.updated_at] if own else [])
    return Ending(
        run_id=start.run_id,
        digest=start.digest,
        started_at=start.started_at,
        ended_at=receipt.stopped_at if receipt else max(signs_of_life),
        result=result,
        exit_code=exit_code,
        progressed=own is not None and (own.batch_committed_at is not None or found_nothing_to_read(own)),
        committed=own is not None and own.batch_committed_at is not None,
        epoch=receipt.epoch if receipt else (own.epoch if own else None),
        error=receipt.error if receipt else None,
        termination=start.termination,
        stopped_early=receipt is not None and receipt.stopped_early,
    )


def _result(start: StartedDriver, receipt: Receipt | None, own: Status | None) -> tuple[Result, int | None]:
    """Return the result from the receipt, or else from the runtime, as for a driver with a full disk."""
    if receipt is not None:
        return receipt.result, receipt.exit_code
    if not start.made and own is None:
        return "not_made", None
    if start.exit_code is not None and start.exit_code < FIRST_SIGNAL:
        return "failed", start.exit_code
    return "killed", None


def found_nothing_to_read(status: Status) -> bool:
    """Return True if the driver waits for new data; one that waits for its source to return has an error."""
    return status.state == "waiting" and status.error is None


def is_status_of(status: Status, start: StartedDriver) -> bool:
    """Return True if exactly this start wrote the status; an earlier one may have had the same run id."""
    return status.run_id == start.run_id and status.updated_at >= start.started_at
