"""What one version of a pipeline keeps as state, and what its stateful operators mean."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.state_schema import StateTable
from tidemill.names import Layout
from tidemill.storage.store import Store


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class KeptState(_Frozen):
    """One stateful operator, as Spark describes it in a checkpoint.

    Args:
        number: Its id in the plan.
        name: Spark's name of it, such as `stateStoreSave` or `dedupe`.
        partitions: Number of its partitions.
        stores: Names of its stores.
        tables: What they hold; empty where Spark has left no schema.
        settings: What `transformWithState` was declared with: time mode, and kind of each state.
    """

    number: int
    name: str
    partitions: int
    stores: tuple[str, ...]
    tables: tuple[StateTable, ...] = ()
    settings: dict[str, str] = {}


class Meaning(_Frozen):
    """What one stateful operator computes, told by the columns that the transform is given.

    Two versions that keep state of the same types can mean something else by it: windows of another length,
    a sum where there was a maximum. Spark does not see that.

    Args:
        kind: Spark's name of the operation in the plan.
        keys: What rows are brought together by.
        functions: What is kept of them, without of what.
        inputs: Of what; new rows may have it changed if that was meant.
    """

    kind: str
    keys: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


class PlannedVersion(_Frozen):
    """A version as Spark plans it.

    Args:
        operators: Its stateful operators, by number.
        meanings: What they compute, in the order of the plan.
        warnings: What was found in the transform that does not forbid it, by id.
    """

    operators: tuple[KeptState, ...] = ()
    meanings: tuple[Meaning, ...] = ()
    warnings: tuple[str, ...] = ()


def kept_in(reader: CheckpointReader) -> tuple[KeptState, ...]:
    """The stateful operators of a checkpoint, by number."""
    return tuple(
        KeptState(
            number=operator.number,
            name=operator.name,
            partitions=operator.partitions,
            stores=operator.stores,
            tables=tuple(reader.state_tables(operator)),
            settings=dict(operator.settings),
        )
        for operator in reader.operators
    )


def keep_meanings(
    store: Store, layout: Layout, pipeline: str, code: str, meanings: tuple[Meaning, ...]
) -> None:
    """Remember what the operators of a version mean that is about to write; nothing for one without state.

    By the digest of its code, which each batch's ledger entry names.
    """
    if meanings:
        version = PlannedVersion(meanings=meanings)
        store.write_json(layout.meanings(pipeline, code), version.model_dump(mode="json"))


def read_meanings(store: Store, layout: Layout, pipeline: str, code: str) -> tuple[Meaning, ...]:
    """What they meant; empty if no driver of a release that knows of this has run that code."""
    document = store.read_json(layout.meanings(pipeline, code))
    return () if document is None else PlannedVersion.model_validate(document).meanings
