"""The columns in a state store, from the file that Spark writes when the operator is created.

Format (Spark 4.2, `SchemaHelper`): Java's `DataOutputStream`. First the version as a string, then

    v1  key, value: one string each
    v2  key, value: each in chunks, preceded by their number
    v3  number of tables; for each: name as one string, id and key, id and value, encoder, user's key

A string has two bytes of length and modified UTF-8. Keys and values are Spark's JSON of a struct. In v3,
everything except numbers and names is in chunks.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict

from tidemill.checkpoint.reading.log_files import TornFileError
from tidemill.checkpoint.reading.state_files import DEFAULT_STORE


class StateColumn(BaseModel):
    """One column of a key or of a value.

    Args:
        name: Its name; Spark identifies it by position, not by name.
        type: Spark's JSON of its type.
        nullable: True if it may be null.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    type: str
    nullable: bool

    def __str__(self) -> str:
        return f"{self.name} {_word_of(json.loads(self.type))}"


class StateTable(BaseModel):
    """The content of one store, or one of the states that `transformWithState` keeps in it.

    Args:
        name: Name of the store; `store/state` for a named state.
        key: Columns of the key.
        value: Columns of the value.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    key: tuple[StateColumn, ...]
    value: tuple[StateColumn, ...]


def parse_state_schema(content: bytes, store: str = DEFAULT_STORE) -> list[StateTable]:
    """Return all tables of one schema file.

    Raises:
        TornFileError: If it is not what Spark writes.
    """
    try:
        read = _Reader(content)
        version = read.text()
        if version not in _VERSIONS:
            raise TornFileError(f"begins with {version[:20]!a}")
        tables = _VERSIONS[version](read, store)
        if read.place != len(content):
            raise TornFileError(f"{len(content) - read.place} bytes after its end")
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise error if isinstance(error, TornFileError) else TornFileError(str(error)) from error
    return tables


class _Reader:
    """The needed part of Java's `DataInputStream`."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.place = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._content, self.place)
        self.place += struct.calcsize(form)
        return int(value)

    def text(self) -> str:
        length = self.number(">H")
        encoded = self._content[self.place : self.place + length]
        if len(encoded) != length:
            raise TornFileError("it is cut off")
        self.place += length
        # Modified UTF-8: NUL has two bytes, and characters beyond 16 bits are two surrogates.
        units = encoded.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return units.encode("utf-16", "surrogatepass").decode("utf-16")

    def chunks(self) -> str:
        return "".join(self.text() for _ in range(self.number(">i")))


def _plain(read: _Reader, store: str) -> list[StateTable]:
    return [StateTable(name=store, key=_columns(read.text()), value=_columns(read.text()))]


def _chunked(read: _Reader, store: str) -> list[StateTable]:
    return [StateTable(name=store, key=_columns(read.chunks()), value=_columns(read.chunks()))]


def _named(read: _Reader, store: str) -> list[StateTable]:
    return [_named_table(read, store) for _ in range(read.number(">i"))]


def _named_table(read: _Reader, store: str) -> StateTable:
    name = read.text()
    # The ids number the versions of Avro state. Tidemill's state is in Spark's own row format.
    read.number(">h")
    key = _columns(read.chunks())
    read.number(">h")
    value = _columns(read.chunks())
    for _ in ("encoder of the key", "key of a map as the user declares it"):
        read.chunks()
    return StateTable(name=f"{store}/{name}", key=key, value=value)


_VERSIONS: dict[str, Callable[[_Reader, str], list[StateTable]]] = {
    "v1": _plain,
    "v2": _chunked,
    "v3": _named,
}


def _columns(document: str) -> tuple[StateColumn, ...]:
    return tuple(
        StateColumn(
            name=field["name"],
            type=json.dumps(_without_metadata(field["type"]), sort_keys=True),
            nullable=field["nullable"],
        )
        for field in json.loads(document)["fields"]
    )


def _without_metadata(kind: object) -> object:
    """Return a type without its metadata, such as the delay of a watermark."""
    if isinstance(kind, dict):
        return {name: _without_metadata(part) for name, part in kind.items() if name != "metadata"}
    return [_without_metadata(part) for part in kind] if isinstance(kind, list) else kind


def _word_of(kind: object) -> str:
    return str(kind["type"]) if isinstance(kind, dict) else str(kind)
