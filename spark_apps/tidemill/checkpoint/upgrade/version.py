"""The state that one version of a pipeline keeps, and the meaning of its stateful operators."""

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
        tables: Content of the stores.
        unread: Stores whose schema is missing or unreadable.
        settings: Declaration of `transformWithState`: time mode, and kind of each state.
    """

    number: int
    name: str
    partitions: int
    stores: tuple[str, ...]
    tables: tuple[StateTable, ...] = ()
    unread: tuple[str, ...] = ()
    settings: dict[str, str] = {}


class Meaning(_Frozen):
    """The computation of one stateful operator, expressed in the input columns of the transform.

    Two versions can keep state of the same types with different meanings: windows of another length, or a sum
    instead of a maximum. Spark does not detect that.

    Args:
        kind: Spark's name of the operation in the plan.
        keys: Grouping keys.
        functions: Aggregate functions, without their inputs.
        inputs: Inputs of the functions; new rows may have changed inputs if that is intended.
    """

    kind: str
    keys: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


class PlannedVersion(_Frozen):
    """A version as Spark plans it.

    Args:
        operators: Its stateful operators, by number.
        meanings: Their meanings, in plan order.
        warnings: Ids of findings about the transform that do not forbid it.
        spark: Version of Spark that planned it; another version may express the same meaning differently.
    """

    operators: tuple[KeptState, ...] = ()
    meanings: tuple[Meaning, ...] = ()
    warnings: tuple[str, ...] = ()
    spark: str = ""


def kept_in(reader: CheckpointReader) -> tuple[KeptState, ...]:
    """Return the stateful operators of a checkpoint, by number."""
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
    """Store the operators' meanings of a version that is about to write; do nothing without state.

    Args:
        store: The storage.
        path: `Layout.meanings` of the code, whose digest each batch's ledger entry names.
        version: The version; only its meanings and its Spark version are stored.
    """
    if version.meanings:
        store.write_json(path, version.model_dump(mode="json", include={"meanings", "spark"}))


def read_version(store: Store, path: str) -> PlannedVersion:
    """Return what `keep_meanings` stored; a version without meanings if it stored nothing."""
    document = store.read_json(path)
    return PlannedVersion() if document is None else PlannedVersion.model_validate(document)


def read_meanings(store: Store, path: str, spark: str) -> tuple[Meaning, ...]:
    """Return the stored meanings, as this Spark version expresses them.

    Empty if no driver has stored them for that code, or only one with another Spark version.
    """
    known = read_version(store, path)
    return known.meanings if known.spark == spark else ()
