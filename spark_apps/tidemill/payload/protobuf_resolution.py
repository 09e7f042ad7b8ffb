"""Check that records of one Protobuf schema can be read as another's. Pure.

Records identify their fields by number and have almost no type information, so a parser reads nearly any
bytes as nearly any type. Here a value is either read as it was written, or rejected, or the schemas are
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from google.protobuf.descriptor import FieldDescriptor

from tidemill.errors import SpecError
from tidemill.payload.json_schema import EACH_ITEM, Path, path_text
from tidemill.payload.protobuf_schema import WELL_KNOWN, Message, ProtobufField, ProtobufSchema

_T = FieldDescriptor
_NAMES: Mapping[int, str] = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(_T).items()
    if name.startswith("TYPE_")
}
# Types as which every written value stays the same.
_SAME_VALUE: Mapping[int, frozenset[int]] = {
    _T.TYPE_INT32: frozenset({_T.TYPE_INT64}),
    _T.TYPE_SINT32: frozenset({_T.TYPE_SINT64}),
    _T.TYPE_UINT32: frozenset({_T.TYPE_UINT64, _T.TYPE_INT64}),
    _T.TYPE_STRING: frozenset({_T.TYPE_BYTES}),
}
# Types as which some values stay the same, and the others are rejected.
_SOME_VALUES: Mapping[int, frozenset[int]] = {
    _T.TYPE_INT64: frozenset({_T.TYPE_INT32}),
    _T.TYPE_SINT64: frozenset({_T.TYPE_SINT32}),
    _T.TYPE_UINT32: frozenset({_T.TYPE_INT32}),
    _T.TYPE_UINT64: frozenset({_T.TYPE_UINT32}),
    _T.TYPE_BYTES: frozenset({_T.TYPE_STRING}),
}

_NO_PLACE = (
    "no header can name it: it stands behind a map in another message, where serializers number it "
    "differently, or in a file that the registered one imports"
)

# Place and reason.
Problem = tuple[Path, str]


def check_resolves(writer: ProtobufSchema, reader: ProtobufSchema) -> None:
    """Raise an error for a writer's schema whose records would become other values than were written.

    A problem of single records, such as a number that is too long, is found in each record, which is then
    invalid.

    Raises:
        SpecError: TIDE-SPEC-067, with the place.
    """
    problem = next(resolution_problems(writer.message, reader.message), None)
    if writer.place is None:
        problem = (), _NO_PLACE
    if problem is not None:
        path, reason = problem
        raise SpecError(
            "TIDE-SPEC-067",
            "Records of a writer's Protobuf schema cannot be read with the pipeline's schema.",
            facts={
                "schema": reader.name,
                "writer": writer.name,
                "at": path_text(path) or "the top",
                "reason": reason,
            },
            fix="keep the number, type, label and default of each field, and give a new one a new number",
        )


def resolution_problems(writer: Message, reader: Message, path: Path = ()) -> Iterator[Problem]:
    """Yield the reasons why a writer's records would become other values."""
    written = {field.number: field for field in writer.fields}
    numbers = {field.name: field.number for field in writer.fields}
    for field in reader.fields:
        here = (*path, field.name)
        if field.number in written:
            yield from _of_fields(written[field.number], field, here)
        elif field.name in numbers:
            yield here, f"it was number {numbers[field.name]}, and is {field.number}"
        elif field.is_required:
            yield here, "it was not written, and is required"
    yield from _of_oneofs(written, reader, path)


def single_record_problems(writer: Message, reader: Message, path: Path = ()) -> Iterator[Problem]:
    """Yield values that some records of a writer may have and the reader rejects."""
    written = {field.number: field for field in writer.fields}
    for field in reader.fields:
        old = written.get(field.number)
        if old is None:
            continue
        here = (*path, field.name)
        if field.is_required and not old.is_required:
            yield here, "it need not be written, and is required"
        if field.kind in _SOME_VALUES.get(old.kind, ()):
            yield here, f"{_NAMES[old.kind]} holds values that {_NAMES[field.kind]} does not"
        numbers = dict(field.symbols)
        gone = [name for number, name in old.symbols if number not in numbers]
        if gone and field.symbols:
            yield here, f"symbols are gone: {', '.join(gone)}"
        if old.message is not None and field.message is not None:
            yield from single_record_problems(old.message, field.message, _inside(field, here))


def _of_fields(writer: ProtobufField, reader: ProtobufField, path: Path) -> Iterator[Problem]:
    labels, kinds = (_label(writer), _label(reader)), (writer.kind, reader.kind)
    readable = {*_SAME_VALUE.get(writer.kind, ()), *_SOME_VALUES.get(writer.kind, ())}
    if labels[0] != labels[1]:
        yield path, f"number {reader.number} was {labels[0]}, and is {labels[1]}"
    elif kinds[0] != kinds[1] and kinds[1] not in readable:
        yield path, f"number {reader.number} was {_NAMES[kinds[0]]}, and is {_NAMES[kinds[1]]}"
    elif _meaning(writer) != _meaning(reader):
        yield path, f"it was {_meaning(writer)}, and is {_meaning(reader)}"
    elif (writer.has_presence, writer.default) != (reader.has_presence, reader.default):
        yield path, f"not written it was {_absent(writer)}, and is {_absent(reader)}"
    elif writer.message is not None and reader.message is not None:
        yield from resolution_problems(writer.message, reader.message, _inside(reader, path))
    else:
        old, new = dict(writer.symbols), dict(reader.symbols)
        for number in sorted(old.keys() & new.keys()):
            if old[number] != new[number]:
                yield path, f"the number {number} was {old[number]}, and is {new[number]}"


def _of_oneofs(written: Mapping[int, ProtobufField], reader: Message, path: Path) -> Iterator[Problem]:
    """Yield conflicts with the reader's `oneof`s: of two written fields, the first would be lost."""
    first: dict[str, ProtobufField] = {}
    for field in reader.fields:
        if field.oneof is None or field.number not in written:
            continue
        other = first.setdefault(field.oneof, field)
        places = {written[field.number].oneof, written[other.number].oneof}
        if other is not field and (None in places or len(places) > 1):
            yield (*path, field.name), f"it was no member of one oneof with {other.name}"


def _label(field: ProtobufField) -> str:
    return "a map" if field.is_map else "repeated" if field.is_repeated else "singular"


def _meaning(field: ProtobufField) -> str:
    """Return the meaning of a message in addition to its fields."""
    name = "" if field.message is None else field.message.name
    return name if name in WELL_KNOWN else "no well-known type"


def _absent(field: ProtobufField) -> str:
    if not field.has_presence:
        return "the zero of its type"
    return "null" if field.default is None else "its default"


def _inside(field: ProtobufField, path: Path) -> Path:
    return (*path, EACH_ITEM) if field.is_repeated else path
