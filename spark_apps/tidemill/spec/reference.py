"""Files that are made from the models: the conf reference and the JSON Schemas that editors use."""

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

Made by `{GENERATE_COMMAND}` from the models in `tidemill/spec`; do not edit.

| folder | holds |
|---|---|
| `pipelines/` | one file per pipeline; the file's name is the pipeline's name |
| `environments/` | one file per environment: storage root, brokers, sizes, names of secrets |
| `schemas/` | JSON Schemas, Avro schemas and Protobuf descriptor sets of the payloads |

`tidemill validate` checks all of it without Spark. An editor with a YAML language server completes and checks
keys by the first line of each file:

    # yaml-language-server: $schema=../pipeline.schema.json

Values: a scalar is text unless it is a number, `true`, `false` or null, so `no` and `10:30` stay text.
Durations are a number and a unit (`10 minutes`, `30s`, `1.5h`), sizes too (`200 MB`, `1g`; multiples of
1024). Unknown keys, keys given twice, anchors and tags are refused. Paths of tables, checkpoints and state
are derived from names and never written. A path of data is relative to the storage root or a URI
(`abfss://…`, `s3a://…`, `file:///…`) and never climbs out of its folder.

Limits, in characters: a file 262,144, the `schema` of a files source 200,000, another condition, expression
or address 10,000, a sentence 500, a name 100. A column of a table holds at most 30 structs, arrays and maps
in each other, because deltalake cannot open deeper ones.

A project folder and a storage root may have any name that Linux allows, but for what the clients of a root
would look for in different places. `validate` refuses these by name (TIDE-SPEC-074), and an absolute `root`
elsewhere is the way out: a percent sign before two hex digits (`a%20b`; `100%` is fine), a backslash, a
control character, a name that is not UTF-8 or has more than 255 bytes, a root of more than 3,500 bytes. As
`root`, a `file:///` URI means the path that it encodes. In a root, `[x]`, `{{a}}`, `*` and `?` are plain
characters. In the path of a files source they are a pattern. No folder in a path with a pattern, or with one
of these characters, may have a colon in its name (TIDE-SPEC-073).

A key that names a column takes its name as it is, without quotes: `order.id` is the column `order.id`, never
a field of a struct. Only `cluster_by` may also name a field. SQL conditions write such a name in backticks. A
column of a Delta table has no space, backtick or any of `,;{{}}()=` in its name.

A payload says how the records of a topic become rows; one that does not fit goes to the quarantine with the
reason, or stops the pipeline (`on_invalid`):

| payload | a record | columns |
|---|---|---|
| `json` | one JSON object | those of a JSON Schema |
| `csv` | one line without a header, after RFC 4180 (a quote inside of quotes is two) | the properties of \
a flat JSON Schema, in order |
| `avro` | one Avro datum, plain or after a registry's header with the number of the writer's schema | those \
of an Avro schema |
| `protobuf` | one Protobuf message, plain or after a registry's header | its fields, by a descriptor set |
| `text` | a text in UTF-8 | `value` |
| none | bytes | `kafka_value` |

A files source may have a payload, too: `source: {{files: {{path: landing/orders}}}}` with `payload: {{json:
{{schema: order.json}}}}`. The same bytes then give the same rows and the same reasons from a topic, a file
and an archive. In place of a payload, a files source may declare `format` and its columns as Spark DDL
(`schema`), which the same decoders read.

| format of files | a record | in addition to topics |
|---|---|---|
| `json` | a line; with `multiLine`, each object of a file or of its list | blank lines are not records |
| `csv` | a line, with those that its quotes continue in | with `header: true`, the header names the \
columns, in any order and case; a file without a known name is rejected line by line (`bad_header`) |
| `text` | a line; with `wholetext`, a file | |
| `avro` | a record of an object container file | the file's own schema is the writer's |
| `protobuf` | a message behind its length, as `writeDelimitedTo` writes it | only with a payload |
| `parquet`, `orc` | a row | only with `schema` |

A rejected record is in the quarantine with its file and line. A file that cannot be read is there as one
row with its name: `damaged_file`, `unsupported_compression`, `unreadable_schema`, or `wrong_file_type` with
the column, its type in the file and the declared type. Other files are read. To have such a file read, put
it there again under another name. Columns that files lack, and names in CSV headers that are not columns,
are logged (`notes_of_files`) and shown by `tidemill status NAME`.

The schema of JSON and CSV is JSON Schema (draft 2020-12). Types become columns:

| declared | column |
|---|---|
| `string`, `integer`, `number`, `boolean` | string, int64 (also of `1.0` and `1e3`), float64, boolean |
| `string` with `format: date-time`, with `format: date` | timestamp in UTC, date |
| `number` with `x-decimal: [10, 2]` | decimal(10, 2), exact, also of `"19.99"`; more digits are rejected |
| `object` with `properties`, `array` with `items` | struct, list |
| `object` with a plain schema as `additionalProperties` alone, at the top | map of texts to its values |
| `[X, "null"]`, `required` | may be null; must be there |
| `x-allow-non-finite: true` on a `number` | keeps NaN and infinity, `2e308` too; else it is rejected |
| `x-allow-no-offset: true` on a `date-time` | takes a time without offset as UTC; else it is rejected |

What else a schema asks is checked record by record, after the types, and only where it asks: `enum`, `const`,
`pattern`, `minLength`, `maxLength`, `format` (uuid, email, ipv4, uri and others of the draft), `minimum`,
`maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`, `minItems`, `maxItems`, `uniqueItems`,
`contains`, `minProperties`, `maxProperties`, `propertyNames`, `patternProperties`, `dependentRequired`,
`dependentSchemas`, `allOf`, `anyOf`, `oneOf`, `not`, `if`/`then`/`else`. A record that breaks one is rejected
with keyword and place: `breaks_minimum:temperature`. A property that is null counts as missing. Any other
keyword is refused, `$ref` too.

A property that the schema does not declare is ignored (`keep_raw: true` keeps the record as it came); with
`additionalProperties: false` a record that has one is rejected. `tidemill schema check OLD NEW` says whether
the records and tables of one schema go on with another.

An Avro schema is a record; any other union or logical type is refused:

| Avro | column |
|---|---|
| `boolean`, `int`, `long`, `float`, `double` | boolean, int32, int64, float32, float64 |
| `bytes`, `fixed` | binary |
| `string`, `enum`, `uuid` of a string | string |
| `date`, `timestamp-millis`, `timestamp-micros`, `decimal` | date, timestamp in UTC, decimal |
| `record`, `array`, `map` | struct, list, map |
| `["null", X]` | like X, may be null |
| `"x-allow-non-finite": true` on a field of floats | keeps NaN and infinity; else it is rejected |

A writer's schema (`ids`, `writers: registry`) is read as the pipeline's by the rules of Avro's specification
for schema resolution. Names of types are compared without their namespaces, and `aliases` in the pipeline's
schema name what writers call otherwise. A field that the pipeline's schema lacks may be of any type. A field
that a writer lacks has its `default`. Where a writer has a union, records with a branch that is not the
column's type are rejected (`unreadable_value`), and so are a null and a symbol that the column does not take.
A date, a timestamp or a decimal is read only from the same logical type (a decimal also from fewer digits of
the same scale). A type without a logical type reads the number or text of any.

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

A field with presence (`optional`, a message, a member of a `oneof`, any field of proto2) is null where it was
not written, or has the default that proto2 declares. Any other field is then zero, as everywhere in Protobuf,
and a list or map is empty. Fields that the schema does not have are ignored. NaN and infinity are rejected. A
message inside of itself and one without fields are refused: leave them out of the schema.

**A secret never stands here, only its name**: a driver finds the value in `secrets.folder` or in the variable
`TIDEMILL_SECRET_<NAME>`.
"""


def generated_files() -> dict[str, str]:
    """Content of every generated file, by its path in a project folder."""
    files = {path: _schema_text(model) for path, model in _SCHEMAS.items()}
    return {**files, "conf/README.md": _reference()}


def write_generated(folder: Path) -> list[Path]:
    """Write all generated files into a project folder; returns them."""
    written = []
    for path, text in generated_files().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def differing_files(folder: Path) -> list[Path]:
    """Generated files of a project folder that are missing or not what the models say."""
    files = {folder / path: text for path, text in generated_files().items()}
    return [file for file, text in files.items() if not file.is_file() or file.read_text("utf-8") != text]


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """JSON Schema of a conf file, without what pydantic adds for Python's sake."""
    document: dict[str, Any] = _tidy(model.model_json_schema(by_alias=True))
    return {"$schema": _DRAFT, **document}


def _schema_text(model: type[BaseModel]) -> str:
    return json.dumps(json_schema(model), indent=2, ensure_ascii=False) + "\n"


def _tidy(node: Any, *, is_names: bool = False) -> Any:
    """Without titles made of key names, and without null beside the type of a key that may be left out.

    `is_names`: the keys of this map are names of the file format, not words of JSON Schema.
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
    """The models of a schema, and where in the file each was described first."""

    models: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)


def _sections(node: dict[str, Any], definitions: _Definitions, path: str) -> Iterator[str]:
    """A table of the keys of this map, then one section for each map below that was not described yet."""
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
    """Name of the model that a key holds, directly, in a list or in a map, and how that shows in a path."""
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
    """What stands behind a key, in a writer's words."""
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
