"""Whether a changed definition could go on from where the running driver is."""

from __future__ import annotations

from dataclasses import replace

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.gate import check, check_holds, gather_facts
from tidemill.errors import TidemillError, UnavailableError
from tidemill.names import FIRST_GENERATION
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Looks that may find the checkpoint and the table at different batches, because the driver commits between
# reading one and the other. A look takes some 100 ms; a driver that commits in each of five is one that the
# next visit finds at rest.
LOOKS = 5


def objection_to(store: Store, pipeline: Pipeline) -> TidemillError | None:
    """Why the gate would refuse this definition now; None if it would not.

    The running driver moves on while it is looked at: one look without an objection is enough.

    Raises:
        UnavailableError: If the storage does not answer, so that nobody knows.
    """
    objection: TidemillError | None = None
    for _ in range(LOOKS):
        try:
            _ask_the_gate(store, pipeline)
        except UnavailableError:
            raise
        except TidemillError as error:
            objection = error
        else:
            return None
    return objection


def _ask_the_gate(store: Store, pipeline: Pipeline) -> None:
    check_holds(store, pipeline.layout, pipeline.name)
    current = read_current(store, pipeline.layout, pipeline.name)
    generation = FIRST_GENERATION if current is None else current.generation
    facts = gather_facts(store, pipeline, generation)
    # The driver that runs is the one that will be drained first.
    check(replace(facts, last_driver=None))
