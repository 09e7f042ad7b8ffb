"""Files generated from the models: the conf reference and the JSON Schemas for editors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tidemill.spec.capabilities_reference import capabilities_reference
from tidemill.spec.environment import EnvironmentSpec
from tidemill.spec.iothub_source import device_columns_reference
from tidemill.spec.join_matrix import joins_reference
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.transform_rules import rules_reference

GENERATE_COMMAND = "tidemill dev generate"

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SCHEMAS: dict[str, type[BaseModel]] = {
    "conf/pipeline.schema.json": PipelineSpec,
    "conf/environment.schema.json": EnvironmentSpec,
}

_HEAD = f"""# conf: what runs, and where

`{GENERATE_COMMAND}` generates this page from the models in `tidemill/spec`. Do not edit it.

| folder | holds |
|---|---|
| `pipelines/` | one file per pipeline; the file's name is the pipeline's name |
| `environments/` | one file per environment: storage root, brokers, sizes, names of secrets |
| `schemas/` | JSON Schemas, Avro schemas and Protobuf descriptor sets of the payloads |

`tidemill validate` checks all of these files without Spark. The first line of each file lets an editor with a
YAML language server complete and check its keys:

    # yaml-language-server: $schema=../pipeline.schema.json

Every scalar is text unless it is a number, `true`, `false` or null, so `no` and `10:30` stay text. A duration
is a number and a unit (`10 minutes`, `30s`, `1.5h`). So is a size (`200 MB`, `1g`; units are multiples of
1024). Unknown keys, duplicate keys, anchors and tags are refused. Paths of tables, checkpoints and state are
derived from names and never written in these files. A data path is relative to the storage root, or a URI
(`abfss://…`, `s3a://…`, `file:///…`). It cannot leave its folder with `..`.

Maximum lengths in characters: file 262,144; `schema` of a files source 200,000; other conditions, expressions
and addresses 10,000; sentence 500; name 100. A table column may nest structs, arrays and maps at most 30
levels deep, because deltalake cannot open deeper ones.

A project folder and a storage root may have almost any name that Linux allows. Some names would make the
clients of a root use different places, so `validate` refuses them (TIDE-SPEC-074). They are a percent sign
before two hex digits (`a%20b`; `100%` is fine), a backslash, a control character, a name that is not UTF-8 or
has more than 255 bytes, and a root of more than 3,500 bytes. If the project folder has such a name, set
`root` to an absolute path elsewhere. As `root`, a `file:///` URI means the path that it encodes. In a root,
`[x]`, `{{a}}`, `*` and `?` are plain characters. In the path of a files source they are a pattern. If a path
contains one of these characters, no folder in it may have a colon in its name (TIDE-SPEC-073).

A key that names a column takes the name without quotes: `order.id` is the column `order.id`, never a field of
a struct. Only `cluster_by` may also name a field. SQL conditions write such a name in backticks. The name of
a Delta table's column contains no space, no backtick and none of `,;{{}}()=`.

A payload declares how the records of a topic become rows. Depending on `on_invalid`, a record that does not
fit goes to the quarantine with the reason, or stops the pipeline:

| payload | record | columns |
|---|---|---|
| `json` | one JSON object | the properties of a JSON Schema |
| `csv` | one line without a header, as in RFC 4180 (a quote within quotes is doubled) | the properties of \
a flat JSON Schema, in order |
| `avro` | one Avro datum, plain or after a registry header with the ID of the writer's schema | the fields \
of an Avro schema |
| `protobuf` | one Protobuf message, plain or after a registry header | the fields in a descriptor set |
| `text` | UTF-8 text | `value` |
| none | bytes | `kafka_value` |

A files source may have a payload as well: `source: {{files: {{path: landing/orders}}}}` with `payload:
{{json: {{schema: order.json}}}}`. The same bytes then give the same rows and the same reasons from a topic, a
file and an archive. Instead of a payload, a files source may declare `format` and its columns as Spark DDL
(`schema`). The same decoders read them.

| format of files | record | differences from topics |
|---|---|---|
| `json` | a line; with `multiLine`, the object in a file or each object in its list | blank lines are \
not records |
| `csv` | a line, or several if a quoted field contains line breaks | with `header: true`, the header names \
the columns, in any order and case; every line of a file without a known name is rejected (`bad_header`) |
| `text` | a line; with `wholetext`, a file | |
| `avro` | a record of an object container file | the schema in the file is the writer's schema |
| `protobuf` | a length-prefixed message, as `writeDelimitedTo` writes it | only with a payload |
| `parquet`, `orc` | a row | only with `schema` |

The quarantine has each rejected record with its file and line. It has one row for each file that cannot be
read, with the file name and the reason: `damaged_file`, `unsupported_compression`, `unreadable_schema`, or
`wrong_file_type` with the column, its type in the file and the declared type. All other files are read. To
have a corrected file read, put it into the folder under another name. Columns missing from files, and names
in CSV headers that are not columns, are logged (`notes_of_files`) and shown by `tidemill status NAME`.

JSON and CSV payloads use JSON Schema (draft 2020-12). Types become columns:

| declared | column |
|---|---|
| `string`, `integer`, `number`, `boolean` | string, int64 (also from `1.0` and `1e3`), float64, boolean |
| `string` with `format: date-time`, with `format: date` | timestamp in UTC, date |
| `number` with `x-decimal: [10, 2]` | decimal(10, 2), exact, also from `"19.99"`; more digits are rejected |
| `object` with `properties`, `array` with `items` | struct, list |
| `object` with only a plain schema as `additionalProperties`, at the top level | map of text to its values |
| `[X, "null"]`, `required` | may be null; must be present |
| `x-allow-non-finite: true` on a `number` | keeps NaN, infinity and `2e308`; otherwise they are rejected |
| `x-allow-no-offset: true` on a `date-time` | reads a time without offset as UTC; otherwise it is rejected |

After the types, these keywords are checked for each record if the schema has them: `enum`, `const`,
`pattern`, `minLength`, `maxLength`, `format` (uuid, email, ipv4, uri and others of the draft), `minimum`,
`maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`, `minItems`, `maxItems`, `uniqueItems`,
`contains`, `minProperties`, `maxProperties`, `propertyNames`, `patternProperties`, `dependentRequired`,
`dependentSchemas`, `allOf`, `anyOf`, `oneOf`, `not`, `if`/`then`/`else`. A record that violates one is
rejected with the keyword and the place: `breaks_minimum:temperature`. A property that is null counts as
missing. All other keywords are refused, including `$ref`.

A property that the schema does not declare is ignored (`keep_raw: true` keeps the whole record). With
`additionalProperties: false`, a record that has one is rejected. `tidemill schema check OLD NEW` reports
whether the records and tables of one schema stay valid with another.

An Avro schema is a record. Unions and logical types other than these are refused:

| Avro | column |
|---|---|
| `boolean`, `int`, `long`, `float`, `double` | boolean, int32, int64, float32, float64 |
| `bytes`, `fixed` | binary |
| `string`, `enum`, `uuid` of a string | string |
| `date`, `timestamp-millis`, `timestamp-micros`, `decimal` | date, timestamp in UTC, decimal |
| `record`, `array`, `map` | struct, list, map |
| `["null", X]` | like X, may be null |
| `"x-allow-non-finite": true` on a float field | keeps NaN and infinity; otherwise they are rejected |

Records with a writer's schema (`ids`, `writers: registry`) are read with the pipeline's schema, by the schema
resolution rules of Avro's specification. Type names are compared without their namespaces. `aliases` in the
pipeline's schema list the names that writers use. A field that the pipeline's schema lacks may have any type.
A field that a writer's schema lacks gets its `default`. If a writer's schema has a union, records with a
branch that is not the column's type are rejected (`unreadable_value`). So are records with a null or a symbol
that the column does not accept. A date, a timestamp or a decimal is read only from the same logical type (a
decimal also from fewer digits of the same scale). A type without a logical type reads the number or text of
any logical type.

Protobuf types become columns:

| declared | column |
|---|---|
| `bool`, `float`, `double`, `string`, `bytes` | boolean, float32, float64, string, binary |
| `int32`, `sint32`, `sfixed32`; `int64`, `sint64`, `sfixed64` | int32; int64 |
| `uint32`, `fixed32`; `uint64`, `fixed64` | int64; decimal(20, 0) |
| an enum | string, the name of the value; a number without a name is rejected |
| a message, `repeated`, `map` | struct, list, map |
| `google.protobuf.Timestamp`, `Duration` | timestamp in UTC; seconds as decimal(21, 9) |
| `google.protobuf.Int64Value` and its siblings | like their value, may be null |

An unset field with presence (`optional`, a message, a member of a `oneof`, any field of proto2) is null, or
has the default that proto2 declares. Any other unset field is zero, as usual in Protobuf, and an unset list
or map is empty. Fields that the schema does not have are ignored. NaN and infinity are rejected. Recursive
messages and messages without fields are refused, so leave them out of the schema.

**These files never contain a secret, only its name.** A driver reads the value from `secrets.folder` or from
the environment variable `TIDEMILL_SECRET_<NAME>`.
"""


def generated_files() -> dict[str, str]:
    """Return the content of every generated file by its path in a project folder."""
    files = {path: _schema_text(model) for path, model in _SCHEMAS.items()}
    return {**files, "conf/README.md": _reference()}


def write_generated(folder: Path) -> list[Path]:
    """Write all generated files into a project folder and return their paths."""
    written = []
    for path, text in generated_files().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def differing_files(folder: Path) -> list[Path]:
    """Return the generated files of a project folder that are missing or out of date."""
    files = {folder / path: text for path, text in generated_files().items()}
    return [file for file, text in files.items() if not file.is_file() or file.read_text("utf-8") != text]


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a conf file without pydantic's Python-specific parts."""
    document: dict[str, Any] = _tidy(model.model_json_schema(by_alias=True))
    return {"$schema": _DRAFT, **document}


def _schema_text(model: type[BaseModel]) -> str:
    return json.dumps(json_schema(model), indent=2, ensure_ascii=False) + "\n"


def _tidy(node: Any, *, is_names: bool = False) -> Any:
    """Remove titles that repeat key names, and the null type of optional keys.

    `is_names`: the keys of this map are names of the file format, not JSON Schema keywords.
    """
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    if is_names:
        return {name: _tidy(part) for name, part in node.items()}
    kept = {
        key: _tidy(part, is_names=key in ("properties", "$defs"))
        for key, part in node.items()
        if key != "title"
    }
    choices = [choice for choice in kept.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == 1:
        del kept["anyOf"]
        kept = {**choices[0], **kept}
    elif choices:
        kept["anyOf"] = choices
    if kept.get("default", ...) is None:
        del kept["default"]
    return kept


def _reference() -> str:
    parts = [_HEAD]
    for title, model in (("Pipeline files", PipelineSpec), ("Environment files", EnvironmentSpec)):
        schema = json_schema(model)
        parts.append(f"## {title}\n\n{schema['description']}\n")
        parts += _sections(schema, _Definitions(schema["$defs"]), "")
    parts += [
        device_columns_reference(),
        capabilities_reference(),
        joins_reference(),
        rules_reference(),
    ]
    return "\n".join(parts)


@dataclass(frozen=True)
class _Definitions:
    """The models of a schema, and the place in the file where each was described first."""

    models: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)


def _sections(node: dict[str, Any], definitions: _Definitions, path: str) -> Iterator[str]:
    """Yield a table of this map's keys, then a section for each nested map not described yet."""
    below: list[tuple[str, dict[str, Any]]] = []
    required = node.get("required", [])
    lines = ["| key | value | default | |", "|---|---|---|---|"]
    for key, part in node.get("properties", {}).items():
        name, step = _model_below(part)
        kind = _kind(part)
        if name in definitions.places:
            kind = f"as `{definitions.places[name]}`"
        elif name is not None:
            definitions.places[name] = f"{path}.{key}{step}".lstrip(".")
            below.append((definitions.places[name], definitions.models[name]))
        default = "**required**" if key in required else _default(part)
        lines.append(f"| `{key}` | {kind} | {default} | {_cell(part.get('description', ''))} |")
    if path:
        yield f"### {path}\n\n{node.get('description', '')}\n"
    if len(lines) > 2:
        yield "\n".join(lines) + "\n"
    for inner_path, inner in below:
        yield from _sections(inner, definitions, inner_path)


def _model_below(part: dict[str, Any]) -> tuple[str | None, str]:
    """Return the model that a key holds directly, in a list or in a map, and its suffix in a path."""
    candidates = (
        (part, ""),
        (part.get("items", {}), "[]"),
        (part.get("additionalProperties", {}), ".<name>"),
        *((pattern, ".<name>") for pattern in part.get("patternProperties", {}).values()),
    )
    for node, step in candidates:
        if isinstance(node, dict) and "$ref" in node:
            return node["$ref"].rpartition("/")[2], step
    return None, ""


def _kind(part: dict[str, Any]) -> str:
    """Describe the value of a key for an author of conf files."""
    if "$ref" in part:
        return "keys below"
    if "enum" in part or "const" in part:
        return " or ".join(f"`{value}`" for value in part.get("enum", [part.get("const")]))
    if "anyOf" in part:
        return " or ".join(_kind(choice) for choice in part["anyOf"])
    kind = part.get("type", "")
    if kind == "array":
        return f"list of {_kind(part.get('items', {}))}"
    if "examples" in part:
        return f"such as `{part['examples'][0]}`"
    words = {"string": "text", "integer": "whole number", "boolean": "`true` or `false`", "object": "map"}
    return words[kind]


def _default(part: dict[str, Any]) -> str:
    default = part.get("default")
    if default in (None, {}, []) or isinstance(default, dict):
        return ""
    return f"`{json.dumps(default) if not isinstance(default, str) else default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
