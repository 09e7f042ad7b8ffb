"""A registry as it is declared, its secrets, and `tidemill schema pull`."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import avro.schema
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from tests.support.avro_schemas import field, record
from tests.support.certificates import make_certificates
from tests.support.command_line import CommandLine
from tests.support.conf_project import ENVIRONMENT, ConfProject
from tests.support.schema_registry import FakeRegistry, schema_registry
from tests.unit.payload.test_schema_registry import CUSTOMER, register_customer
from tidemill.errors import SpecError, UnavailableError
from tidemill.payload.avro_schema import load_avro_schema
from tidemill.payload.registry_client import RegistryClient, registry_of

OLD = record(field("id", "int"))
NEW = record(field("id", "long"), field("size", ["null", "double"], default=None))


def test_credentials_are_sent_and_never_shown(project: ConfProject, monkeypatch: pytest.MonkeyPatch) -> None:
    with schema_registry(authorization="Bearer tell-nobody") as registry:
        registry.register(7, OLD)
        add_registry(project, f"{{url: '{registry.url}', token: registry-token}}")
        monkeypatch.setenv("TIDEMILL_SECRET_REGISTRY_TOKEN", "tell-nobody")
        client = registry_of(project.load())
        assert client.by_id(7) is not None
        assert "tell-nobody" not in repr(client)
        with pytest.raises(SpecError) as refused:
            RegistryClient(registry.url, "Bearer wrong").by_id(7)
        assert "wrong" not in str(refused.value)
        registry.authorization = f"Basic {base64.b64encode(b'ann:tell-nobody').decode()}"
        basic = f"{{url: '{registry.url}/', username: ann, password: registry-token}}"
        add_registry(project, basic)
        assert registry_of(project.load()).by_id(7) is not None


@pytest.mark.parametrize("secret", ["tell-\nnobody", "tell-nobody\r\nX: 1", "tell-nob\u20acdy"])
def test_a_secret_that_no_header_can_hold_is_refused_without_its_value(
    project: ConfProject, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    add_registry(project, "{url: 'https://registry', token: registry-token}")
    monkeypatch.setenv("TIDEMILL_SECRET_REGISTRY_TOKEN", secret)
    with pytest.raises(SpecError) as refused:
        registry_of(project.load())
    assert refused.value.error_id == "TIDE-SRC-021"
    assert "tell-" not in str(refused.value)
    monkeypatch.setenv("TIDEMILL_SECRET_REGISTRY_TOKEN", "tell-nobody\n")
    assert registry_of(project.load()).authorization == "Bearer tell-nobody"


def test_a_registry_over_tls_is_asked_only_if_its_certificate_is_trusted(
    project: ConfProject, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path)
    with schema_registry(certificates=made) as registry:
        registry.register(7, OLD)
        add_registry(project, f"{{url: '{registry.url}', ca_file: '{made.authority}'}}")
        assert registry_of(project.load()).by_id(7) is not None
        with pytest.raises(UnavailableError) as failed:
            RegistryClient(registry.url, "Bearer tell-nobody").by_id(7)
        assert "certificate" in str(failed.value.facts["reason"])
        assert registry.asked == ["/schemas/ids/7"]


def add_registry(project: ConfProject, declared: str) -> None:
    project.write("conf/environments/local.yaml", f"{ENVIRONMENT}schema_registry: {declared}\n")


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("{url: 'https://ann:pw@registry'}", None),
        ("{url: 'ftp://registry'}", "match"),
        ("{url: 'https://registry?key=1'}", "match"),
        ("{url: 'https://registry', username: ann}", "go together"),
        ("{url: 'https://registry', username: ann, password: pw, token: t}", "not both"),
        ("{url: 'http://registry', token: t}", "https only"),
        ("{url: 'http://localhost:1', ca_file: ca.pem}", "no effect"),
    ],
)
def test_a_wrong_registry_is_refused(project: ConfProject, declared: str, says: str | None) -> None:
    add_registry(project, declared)
    error = project.refusal()
    assert error.error_id == ("TIDE-SPEC-004" if says is None else "TIDE-SPEC-003")
    assert (says or "") in error.problem


AVRO_FILE = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'


@pytest.mark.parametrize(
    ("keys", "error_id", "says"),
    [
        ("framing: confluent, writers: registry", "TIDE-SPEC-068", "names no schema registry"),
        ("writers: registry", "TIDE-SPEC-003", "`framing: confluent`"),
        ("framing: confluent, writers: registry, ids: {7: order.avsc}", "TIDE-SPEC-003", "without `ids`"),
    ],
)
def test_writers_of_a_registry_need_one(project: ConfProject, keys: str, error_id: str, says: str) -> None:
    project.write("conf/schemas/order.avsc", AVRO_FILE)
    project.replace("json: {schema: order.json}", f"avro: {{schema: order.avsc, {keys}}}")
    error = project.refusal()
    assert (error.error_id, says in error.problem) == (error_id, True), error


def test_a_version_of_a_subject_is_pulled_into_a_file(tidemill: CommandLine, project: ConfProject) -> None:
    with schema_registry() as registry:
        pull_some(tidemill, project, registry)


def pull_some(tidemill: CommandLine, project: ConfProject, registry: FakeRegistry) -> None:
    registry.register(7, OLD)
    assert registry.register(8, NEW) == 2
    add_registry(project, f"{{url: '{registry.url}'}}")
    assert tidemill("schema", "pull", "orders-value", "--version", "2") == 0
    file = project.folder / "conf/schemas/orders-value.v2.avsc"
    assert '"size"' in file.read_text()
    assert tidemill("schema", "pull", "orders-value", "--version", "2") == 0
    file.write_text("{}")
    assert tidemill("schema", "pull", "orders-value", "--version", "2") == 2
    assert "TIDE-CLI-032" in tidemill.err
    for subject, version in (("orders-value", "3"), ("nobody", "1"), ("../orders", "1")):
        assert tidemill("schema", "pull", subject, "--version", version) == 2
        assert "TIDE-CLI-033" in tidemill.err
    registry.register_types()
    assert tidemill("schema", "pull", "orders-value", "--version", "3") == 0
    assert (project.folder / "conf/schemas/orders-value.v3.desc").is_file()


def test_a_pulled_file_has_the_schemas_that_the_subject_refers_to(
    tidemill: CommandLine, project: ConfProject
) -> None:
    with schema_registry() as registry:
        register_customer(registry)
        add_registry(project, f"{{url: '{registry.url}'}}")
        assert tidemill("schema", "pull", "customer-value", "--version", "1") == 0
    file = project.folder / "conf/schemas/customer-value.v1.avsc"
    columns = load_avro_schema(json.loads(file.read_text()), file.name).wire
    address = pa.struct([("town", pa.string()), ("country", pa.string())])
    assert columns == pa.schema(
        [("id", pa.int32()), ("home", address), ("work", address), ("born", pa.list_(pa.string()))]
    )
    # Any reader of Avro takes the file.
    whole = avro.schema.parse(file.read_text())
    assert [field.name for field in whole.fields] == ["id", "home", "work", "born"]
    project.replace("json: {schema: order.json}", "avro: {schema: customer-value.v1.avsc}")
    project.replace("event_time: {column: at, watermark: 10 minutes}", "")
    project.load()


@pytest.mark.parametrize(
    ("schema", "keys", "error_id"),
    [
        (CUSTOMER, {}, "TIDE-SPEC-061"),
        (CUSTOMER, {"references": [{"name": "Address", "subject": "gone", "version": 1}]}, "TIDE-SPEC-069"),
        ("string", {}, "TIDE-SPEC-061"),
        ({"type": "object"}, {"schemaType": "JSON"}, "TIDE-SPEC-069"),
        (descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=["b.proto"]), {}, "TIDE-SPEC-064"),
    ],
)
def test_a_schema_that_no_pipeline_could_use_is_not_written(
    tidemill: CommandLine, project: ConfProject, schema: Any, keys: dict[str, Any], error_id: str
) -> None:
    with schema_registry() as registry:
        registry.register(7, schema, "customer-value", **keys)
        add_registry(project, f"{{url: '{registry.url}'}}")
        assert tidemill("schema", "pull", "customer-value", "--version", "1") == 2
    assert error_id in tidemill.err
    assert list((project.folder / "conf/schemas").glob("customer*")) == []
