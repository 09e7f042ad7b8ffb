"""What one version of a pipeline keeps as state, and what its stateful operators mean."""

from __future__ import annotations

from itertools import chain

from pydantic import BaseModel, ConfigDict

from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.state_files import Operator
from tidemill.checkpoint.reading.state_schema import StateTable
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
        tables: What they hold.
        unread: Those of the stores whose schema is missing or cannot be read.
        settings: What `transformWithState` was declared with: time mode, and kind of each state.
    """

    number: int
    name: str
    partitions: int
    stores: tuple[str, ...]
    tables: tuple[StateTable, ...] = ()
    unread: tuple[str, ...] = ()
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
        spark: Version of Spark that planned it; another one may put the same meaning into other words.
    """

    operators: tuple[KeptState, ...] = ()
    meanings: tuple[Meaning, ...] = ()
    warnings: tuple[str, ...] = ()
    spark: str = ""


def kept_in(reader: CheckpointReader) -> tuple[KeptState, ...]:
    """The stateful operators of a checkpoint, by number."""
    return tuple(_kept(reader, operator) for operator in reader.operators)


def _kept(reader: CheckpointReader, operator: Operator) -> KeptState:
    tables = reader.state_tables(operator)
    return KeptState(
        number=operator.number,
        name=operator.name,
        partitions=operator.partitions,
        stores=operator.stores,
        tables=tuple(chain.from_iterable(tables.values())),
        unread=tuple(store for store in operator.stores if store not in tables),
        settings=dict(operator.settings),
    )


def keep_meanings(store: Store, path: str, version: PlannedVersion) -> None:
    """Remember what the operators of a version mean that is about to write; nothing for one without state.

    Args:
        store: The storage.
        path: `Layout.meanings` of the code, whose digest each batch's ledger entry names.
        version: With its meanings; the rest is not looked at.
    """
    if version.meanings:
        store.write_json(path, version.model_dump(mode="json", include={"meanings", "spark"}))


def read_version(store: Store, path: str) -> PlannedVersion:
    """Return what `keep_meanings` kept; a version without meanings if it kept nothing."""
    document = store.read_json(path)
    return PlannedVersion() if document is None else PlannedVersion.model_validate(document)


def read_meanings(store: Store, path: str, spark: str) -> tuple[Meaning, ...]:
    """What they meant, in the words of this Spark.

    Empty if no driver of a release that knows of this has run that code, or one with another Spark.
    """
    known = read_version(store, path)
    return known.meanings if known.spark == spark else ()
