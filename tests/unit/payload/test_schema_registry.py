"""Writer schemas from a registry: their cache, and the effect of an unavailable registry."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from tests.support.avro_schemas import field, record
from tests.support.protobuf_schemas import PROTOC_MADE, descriptor_set, made_by, message
from tests.support.schema_registry import FakeRegistry, schema_registry
from tests.unit.payload.test_avro_decoder import encoded, framed
from tidemill.errors import SpecError, TidemillError, UnavailableError
from tidemill.payload import registered_schemas
from tidemill.payload.decoders import decoder_of
from tidemill.payload.registered_schemas import RegisteredSchemas
from tidemill.payload.registry_client import RegistryClient
from tidemill.spec.payload import Payload

OLD = record(field("id", "int"))
NEW = record(field("id", "long"), field("size", ["null", "double"], default=None))
OTHER = record(field("id", "string"))
CONFLUENT = {"framing": "confluent", "writers": "registry"}


@pytest.fixture
def registry() -> Any:
    with schema_registry() as started:
        yield started


def schemas(registry: FakeRegistry, folder: Path, kind: str = "AVRO") -> RegisteredSchemas:
    return RegisteredSchemas(RegistryClient(registry.url), kind, str(folder / "kept"))


def avro(found: RegisteredSchemas, folder: Path) -> Any:
    (folder / "order.avsc").write_text(json.dumps(NEW))
    payload = Payload.model_validate({"avro": {"schema": "order.avsc", **CONFLUENT}})
    # Pickle the decoder as Spark does for each task.
    return pickle.loads(pickle.dumps(decoder_of(payload, folder, found.find)))


def outcomes(decoder: Any, *records: bytes) -> Any:
    decoded = decoder.decode(pa.array(records, pa.binary()))
    return decoded.rows.to_pylist(), decoded.reasons


def forget() -> None:
    """Forget all schemas, as in a new process."""
    registered_schemas._read.clear()


def test_each_writer_s_schema_is_asked_for_once_and_kept(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.register(7, OLD)
    registry.register(8, NEW)
    found = schemas(registry, tmp_path)
    records = framed(7, encoded(OLD, id=1)), framed(8, encoded(NEW, id=2, size=0.5))
    expected = [{"id": 1, "size": None}, {"id": 2, "size": 0.5}], []
    assert outcomes(avro(found, tmp_path), *records, *records)[0] == expected[0] * 2
    assert registry.asked == ["/schemas/ids/7", "/schemas/ids/8"]
    assert sorted(file.name for file in (tmp_path / "kept").iterdir()) == [
        "0000000007.json",
        "0000000008.json",
    ]
    registry.answer = (500, b"")
    assert outcomes(avro(found, tmp_path), *records) == expected
    forget()
    assert outcomes(avro(found, tmp_path), *records) == expected
    assert len(registry.asked) == 2


def test_what_the_registry_does_not_know_or_what_does_not_fit_is_a_reason(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    registry.register(7, OTHER)
    registry.register(8, {"type": "object"}, schemaType="JSON")
    place = [{"name": "shop.Place", "subject": "place", "version": 1}]
    registry.register(9, record(field("id", "int"), field("at", "shop.Place")), references=place)
    body = encoded(OLD, id=1)
    records = (framed(number, body) for number in (6, 7, 8, 9))
    rows, reasons = outcomes(avro(schemas(registry, tmp_path), tmp_path), *records)
    assert rows == []
    assert reasons == ["unknown_schema_id:6", *(f"unreadable_schema:{number}" for number in (7, 8, 9))]
    # A new number may be registered at any time.
    registry.register(6, OLD)
    assert outcomes(avro(schemas(registry, tmp_path), tmp_path), framed(6, body))[1] == []


def test_a_compatible_new_version_of_a_producer_is_read(registry: FakeRegistry, tmp_path: Path) -> None:
    """Another namespace, a union of several types, and a logical type that no column has."""
    first = record(field("id", "long"), field("sum", "double"))
    fields = first["fields"]
    renamed = {**first, "namespace": "shop.v2"}
    wider = record(*fields, field("extra", ["null", "string", "long"], default=None))
    day = {"type": "int", "logicalType": "time-millis"}
    timed = record(*fields, field("at_day", day, default=0))
    for number, schema in enumerate((first, renamed, wider, timed), start=21):
        registry.register(number, schema, "order-value")
    written = [
        framed(21, encoded(first, id=1, sum=1.5)),
        framed(22, encoded(renamed, id=2, sum=2.5)),
        framed(23, encoded(wider, id=3, sum=3.5, extra="x")),
        framed(23, encoded(wider, id=4, sum=4.5, extra=None)),
        framed(24, encoded({**timed, "fields": [*fields, field("at_day", "int")]}, id=5, sum=5.5, at_day=7)),
    ]
    (tmp_path / "first.avsc").write_text(json.dumps(first))
    payload = Payload.model_validate({"avro": {"schema": "first.avsc", **CONFLUENT}})
    decoder = decoder_of(payload, tmp_path, schemas(registry, tmp_path).find)
    assert outcomes(decoder, *written) == ([{"id": n, "sum": n + 0.5} for n in range(1, 6)], [])


COUNTRY = {"type": "enum", "name": "Country", "namespace": "geo", "symbols": ["NO", "IT"]}
ADDRESS = record(field("town", "string"), field("country", "geo.Country"), name="Address")
CUSTOMER = record(
    field("id", "int"),
    field("home", "Address"),
    field("work", ["null", "shop.Address"], default=None),
    field("born", {"type": "array", "items": "geo.Country"}),
)


def reference(subject: str) -> dict[str, Any]:
    """Return a reference. Its name is only a label, which may differ from the name of the type."""
    return {"name": f"label of {subject}", "subject": subject, "version": 1}


def register_customer(registry: FakeRegistry) -> None:
    """Register a schema that refers to two others, one of which refers to the other."""
    registry.register(3, COUNTRY, "country")
    registry.register(4, ADDRESS, "address", references=[reference("country")])
    references = [reference("address"), reference("country")]
    registry.register(7, CUSTOMER, "customer-value", references=references)


def test_a_writer_s_schema_has_the_schemas_that_it_refers_to(registry: FakeRegistry, tmp_path: Path) -> None:
    register_customer(registry)
    home = {"town": "Oslo", "country": "NO"}
    alone = record(
        field("id", "int"),
        field("home", {**ADDRESS, "fields": [field("town", "string"), field("country", COUNTRY)]}),
        *CUSTOMER["fields"][2:],
    )
    written = encoded(alone, id=1, home=home, work={"town": "Bari", "country": "IT"}, born=["IT"])
    reader = record(field("born", {"type": "array", "items": COUNTRY}), field("id", "long"))
    (tmp_path / "reader.avsc").write_text(json.dumps(reader))
    payload = Payload.model_validate({"avro": {"schema": "reader.avsc", **CONFLUENT}})
    decoder = decoder_of(payload, tmp_path, schemas(registry, tmp_path).find)
    assert outcomes(decoder, framed(7, written)) == ([{"born": ["IT"], "id": 1}], [])
    # It is kept with them.
    registry.answer = (500, b"")
    forget()
    decoder = decoder_of(payload, tmp_path, schemas(registry, tmp_path).find)
    assert outcomes(decoder, framed(7, written)) == ([{"born": ["IT"], "id": 1}], [])


OTHER_ADDRESS = record(field("x", "string"), name="Address")


@pytest.mark.parametrize(
    ("second", "refers_to"),
    [
        ({"schema": "message A {}", "schemaType": "PROTOBUF"}, ["second"]),
        ({"schema": "{no json"}, ["second"]),
        ({"schema": json.dumps(OTHER_ADDRESS)}, ["address", "second"]),
        ({"schema": json.dumps(COUNTRY)}, ["second"]),
        ({"schema": json.dumps(COUNTRY)}, ["second", "gone"]),
    ],
)
def test_a_schema_whose_references_do_not_fit_is_a_reason(
    registry: FakeRegistry, tmp_path: Path, second: dict[str, Any], refers_to: list[str]
) -> None:
    registry.register(3, ADDRESS, "address", references=[reference("country")])
    registry.register(5, COUNTRY, "country")
    registry.register(4, {}, "second")
    registry.schemas[4] = second
    registry.register(7, CUSTOMER, references=[reference(subject) for subject in refers_to])
    found = schemas(registry, tmp_path)
    assert outcomes(avro(found, tmp_path), framed(7, b"\x02"))[1] == ["unreadable_schema:7"]


def test_a_schema_that_refers_to_itself_or_to_too_many_is_a_reason(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    registry.register(7, NEW, "loop", references=[reference("loop")])
    found = schemas(registry, tmp_path)
    assert outcomes(avro(found, tmp_path), framed(7, b"\x02\x00"))[0] == [{"id": 1, "size": None}]
    for number in range(300):
        registry.register(1000 + number, NEW, f"s{number}", references=[reference(f"s{number + 1}")])
    assert outcomes(avro(found, tmp_path), framed(1000, b"\x02\x00"))[1] == ["unreadable_schema:1000"]
    assert len(registry.asked) < 210


def test_a_repeated_batch_rejects_what_it_rejected_before(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = schemas(registry, tmp_path)
    written = framed(6, encoded(OLD, id=1))
    monkeypatch.setattr(registered_schemas, "_batch", lambda: "query-5")
    assert outcomes(avro(found, tmp_path), written, written)[1] == ["unknown_schema_id:6"] * 2
    registry.register(6, OLD)
    assert outcomes(avro(found, tmp_path), written)[1] == ["unknown_schema_id:6"]
    assert registry.asked == ["/schemas/ids/6"]
    monkeypatch.setattr(registered_schemas, "_batch", lambda: "query-6")
    assert outcomes(avro(found, tmp_path), written) == ([{"id": 1, "size": None}], [])


def test_tasks_of_a_batch_decide_alike_whatever_a_registry_tells_them(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = schemas(registry, tmp_path)
    written = framed(6, encoded(OLD, id=1))
    by_id = RegistryClient.by_id

    def while_another_task_asks(client: RegistryClient, number: int) -> Any:
        """Answer as a replica that does not have the number yet, while another task's replica has it."""
        told = by_id(client, number)
        registry.register(6, OLD)
        monkeypatch.setattr(RegistryClient, "by_id", by_id)
        assert outcomes(avro(found, tmp_path), written)[1] == []
        forget()
        return told

    monkeypatch.setattr(registered_schemas, "_batch", lambda: "query-5")
    monkeypatch.setattr(RegistryClient, "by_id", while_another_task_asks)
    assert outcomes(avro(found, tmp_path), written) == ([{"id": 1, "size": None}], [])
    forget()
    assert outcomes(avro(found, tmp_path), written)[1] == []


def test_what_another_run_keeps_meanwhile_changes_no_decision(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = schemas(registry, tmp_path)
    written = framed(6, encoded(OLD, id=1))
    monkeypatch.setattr(registered_schemas, "_batch", lambda: "query-5")
    assert outcomes(avro(found, tmp_path), written)[1] == ["unknown_schema_id:6"]
    registry.register(6, OLD)
    monkeypatch.setattr(registered_schemas, "_batch", lambda: "")
    assert outcomes(avro(found, tmp_path), written)[1] == []
    forget()
    monkeypatch.setattr(registered_schemas, "_batch", lambda: "query-5")
    assert outcomes(avro(found, tmp_path), written)[1] == ["unknown_schema_id:6"]


@pytest.mark.parametrize("text", ["{no json", "[" * 3000 + "]" * 3000])
def test_a_registered_text_that_is_no_schema_is_a_reason(
    registry: FakeRegistry, tmp_path: Path, text: str
) -> None:
    registry.schemas[7] = {"schema": text}
    found = avro(schemas(registry, tmp_path), tmp_path)
    assert outcomes(found, framed(7, b"\x02"))[1] == ["unreadable_schema:7"]


@pytest.mark.parametrize(
    ("answer", "error_id"),
    [
        ((500, b'{"error_code": 50001}'), "TIDE-SRC-020"),
        ((404, b"<html>no such page</html>"), "TIDE-SRC-020"),
        ((404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'), "TIDE-SRC-020"),
        ((404, b"[]"), "TIDE-SRC-020"),
        ((200, b"<html>log in</html>"), "TIDE-SRC-020"),
        ((200, b"[]"), "TIDE-SRC-020"),
        ((200, b'{"id": 7}'), "TIDE-SRC-020"),
        ((200, b'{"schema": null}'), "TIDE-SRC-020"),
        ((200, b"[" * 100_000), "TIDE-SRC-020"),
        ((404, b"[" * 100_000), "TIDE-SRC-020"),
        ((302, b"http://localhost:1/"), "TIDE-SRC-020"),
        ((401, b""), "TIDE-SRC-021"),
        ((403, b""), "TIDE-SRC-021"),
    ],
)
def test_an_answer_that_is_none_stops_the_batch_and_rejects_nothing(
    registry: FakeRegistry, tmp_path: Path, answer: tuple[int, bytes], error_id: str
) -> None:
    registry.answer = answer
    with pytest.raises(TidemillError) as failed:
        outcomes(avro(schemas(registry, tmp_path), tmp_path), framed(7, b"\x02"))
    assert failed.value.error_id == error_id
    assert isinstance(failed.value, UnavailableError if error_id == "TIDE-SRC-020" else SpecError)
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_registry_that_is_away_stops_the_batch(tmp_path: Path) -> None:
    with schema_registry() as registry:
        found = schemas(registry, tmp_path)
    with pytest.raises(UnavailableError) as failed:
        outcomes(avro(found, tmp_path), framed(7, b"\x02"))
    assert (failed.value.error_id, failed.value.facts["asked"]) == ("TIDE-SRC-020", "/schemas/ids/7")


def test_protobuf_s_descriptors_come_with_the_files_that_they_refer_to(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    registry.register_types()
    (tmp_path / "order.desc").write_bytes((PROTOC_MADE / "types.desc").read_bytes())
    declared = {"schema": "order.desc", "message": "shop.Order", **CONFLUENT}
    found = schemas(registry, tmp_path, "PROTOBUF")
    decoder = decoder_of(Payload.model_validate({"protobuf": declared}), tmp_path, found.find)
    written = made_by((PROTOC_MADE / "types.desc").read_bytes())(id=5).SerializeToString()
    rows, reasons = outcomes(decoder, b"\x00\x00\x00\x00\x07\x02\x02" + written, framed(8, written))
    assert ([row["id"] for row in rows], reasons) == ([5], ["unknown_schema_id:8"])
    assert "/subjects/place/versions/1?format=serialized" in registry.asked


def test_a_message_of_an_imported_file_is_no_message_of_the_registered_one(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    """Both messages are the first of their files, so their headers differ only in the schema's number."""
    orders = descriptor_set(message("Order", "string id = 1"))
    event = descriptor_pb2.FileDescriptorProto(package="shop", syntax="proto3", dependency=["shop.proto"])
    event.message_type.append(message("OrderEvent", "Order order = 1"))
    registry.register(3, descriptor_pb2.FileDescriptorSet.FromString(orders).file[0], "order")
    imported = [{"name": "shop.proto", "subject": "order", "version": 1}]
    registry.register(7, event, "event", references=imported)
    (tmp_path / "order.desc").write_bytes(orders)
    declared = {"schema": "order.desc", "message": "shop.Order", **CONFLUENT}
    found = schemas(registry, tmp_path, "PROTOBUF")
    decoder = decoder_of(Payload.model_validate({"protobuf": declared}), tmp_path, found.find)
    order = made_by(orders)(id="A").SerializeToString()
    wrapped = b"\x0a" + bytes([len(order)]) + order
    rows, reasons = outcomes(decoder, framed(7, b"\x00" + wrapped), framed(3, b"\x00" + order))
    assert (rows, reasons) == ([{"id": "A"}], ["unreadable_schema:7"])


def of_writer(registry: FakeRegistry, folder: Path, reader: bytes, writer: bytes, record: bytes) -> Any:
    registry.register(7, descriptor_pb2.FileDescriptorSet.FromString(writer).file[0])
    (folder / "order.desc").write_bytes(reader)
    declared = {"schema": "order.desc", "message": "shop.Order", **CONFLUENT}
    found = schemas(registry, folder, "PROTOBUF")
    decoder = decoder_of(Payload.model_validate({"protobuf": declared}), folder, found.find)
    return outcomes(decoder, framed(7, b"\x00" + record))


def test_a_writer_s_fields_that_no_column_could_hold_are_left_out_like_any_unknown_ones(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    node = message("Node", "string name = 1", "Node next = 2", "Empty empty = 3")
    lines = "string id = 1", "repeated Node nodes = 4"
    writer = descriptor_set(
        message("Order", *lines, "Empty none = 2", "Node node = 3", "int32 ID = 5"), node, message("Empty")
    )
    reader = descriptor_set(message("Order", *lines), message("Node", "string name = 1"))
    made = made_by(writer)(id="A")
    made.nodes.add(name="n").next.next.name = "deep"
    made.node.name = "m"
    expected = [{"id": "A", "nodes": [{"name": "n"}]}], []
    assert of_writer(registry, tmp_path, reader, writer, made.SerializeToString()) == expected


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("map<string, int32> v = 1", "repeated Part v = 1"),
        ("map<string, Part> v = 1", "map<string, int32> v = 1"),
        ("Part v = 1", "string v = 1"),
        ("Whole v = 1", "Part v = 1"),
        ("Part v = 2", "string v = 1"),
    ],
)
def test_what_a_writer_leaves_out_hides_no_difference(
    registry: FakeRegistry, tmp_path: Path, writer: str, reader: str
) -> None:
    types = message("Part", "string a = 8"), message("Whole", "string a = 9")
    sets = (descriptor_set(message("Order", line), *types) for line in (reader, writer))
    assert of_writer(registry, tmp_path, *sets, b"") == ([], ["unreadable_schema:7"])


def test_a_registry_without_descriptors_is_refused(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.register(7, "syntax = 'proto3';", schemaType="PROTOBUF")
    with pytest.raises(SpecError) as refused:
        schemas(registry, tmp_path, "PROTOBUF").find(7)
    assert refused.value.error_id == "TIDE-SRC-022"
