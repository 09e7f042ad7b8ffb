"""Encode rows of a test as Protobuf messages, with the runtime, which refuses values that do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError
from google.protobuf.message_factory import GetMessageClass

from tidemill.payload.protobuf_files import load_message, place_in_file
from tidemill.payload.protobuf_schema import DURATION, TIMESTAMP, WRAPPERS
from tidemill.testing.rows import Row, check_columns, misfit

_SECOND, _MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)


class RowMessage:
    """One message of a descriptor set.

    Args:
        descriptor_set: Content of the file.
        message: Name of the message, with its package.
        name: File name, for error messages.
    """

    def __init__(self, descriptor_set: bytes, message: str, name: str) -> None:
        self._descriptor = load_message(descriptor_set, message, name)
        self.place = place_in_file(self._descriptor)

    def encode(self, rows: Sequence[Row]) -> list[bytes]:
        """Encode each row as one message; a field that is missing or None is not written.

        Raises:
            UsageError: TIDE-TEST-003, if a row does not fit.
        """
        return [self._encoded(place, row) for place, row in enumerate(rows)]

    def _encoded(self, place: int, row: Row) -> bytes:
        try:
            return bytes(_message(place, self._descriptor, row).SerializeToString())
        except (TypeError, ValueError, ArithmeticError, EncodeError) as error:
            misfit(place, str(error), "correct the value; a time is a datetime or ISO 8601")


def _message(place: int, declared: Descriptor, row: Mapping[str, Any]) -> Any:
    fields = declared.fields_by_name
    check_columns([row], fields, place)
    values = {name: _values(place, fields[name], value) for name, value in row.items() if value is not None}
    return GetMessageClass(declared)(**values)


def _values(place: int, field: FieldDescriptor, value: Any) -> Any:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        of_value = message.fields_by_name["value"]
        return {key: _value(place, of_value, item) for key, item in dict(value).items()}
    if not field.is_repeated:
        return _value(place, field, value)
    if not isinstance(value, list | tuple):
        # A text would become the list of its letters.
        misfit(place, f"{field.name} is no list", "write a list")
    return [_value(place, field, item) for item in value]


def _value(place: int, field: FieldDescriptor, value: Any) -> Any:
    """Convert a value for the runtime, which checks values of other types."""
    message = field.message_type
    if message is None or value is None:
        return value
    made = GetMessageClass(message)
    if message.full_name == TIMESTAMP:
        return made(**_moment(value))
    if message.full_name == DURATION:
        return made(**_span(value))
    if message.full_name in WRAPPERS:
        return made(value=value)
    return _message(place, message, value) if isinstance(value, Mapping) else value


def _moment(value: Any) -> dict[str, int]:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        raise TypeError(f"{value!r} is no time")
    since_1970 = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return {"seconds": since_1970 // _SECOND, "nanos": since_1970.microseconds * 1000}


def _span(value: Any) -> dict[str, int]:
    """Convert a timedelta, or seconds as in the decimal column; both parts have the same sign."""
    seconds = Decimal(value // _MICROSECOND) / 10**6 if isinstance(value, timedelta) else value
    if not isinstance(seconds, int | Decimal):
        raise TypeError(f"{value!r} is no timedelta and no Decimal of seconds")
    whole, rest = divmod(abs(int(seconds * 10**9)), 10**9)
    sign = -1 if seconds < 0 else 1
    return {"seconds": sign * whole, "nanos": sign * rest}
