"""Types of texts that become a path, a topic, a column or a line of output.

Every text has a maximum length and no control characters, so that none can break a path, a log line, a
terminal or an index. Patterns are anchored, because pydantic searches instead of matching the whole text.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from tidemill.names import TABLE_PATTERN, ZONES
from tidemill.spec.ddl import check_columns, check_columns_or_type

# Maximum lengths in characters. File names are limited to 255 bytes on all common file systems, and Tidemill
# adds suffixes. SQL conditions and DDL must stay readable, and a sentence is one line on a page.
MAX_NAME = 100
MAX_SENTENCE = 500
MAX_EXPRESSION = 10_000
# Columns as DDL, which may be generated, with up to about 8,000 columns. Must stay below the limit of a conf
# file (yaml_file.py), so that the error names the key.
MAX_COLUMNS = 200_000

# Kafka's rule for topics (Topic.LEGAL_CHARS, at most 249) and Azure's rule for event hubs.
TOPIC_PATTERN = r"^[a-zA-Z0-9._-]{1,249}$"
HUB_PATTERN = r"^[a-zA-Z0-9](?:[a-zA-Z0-9._-]{0,254}[a-zA-Z0-9])?$"
NAMESPACE_PATTERN = r"^[a-zA-Z][a-zA-Z0-9-]{0,49}$"
# A name or an address, such as localhost, 10.0.0.7 or ::1.
HOST_PATTERN = r"^[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,252}[A-Za-z0-9])?$|^::1$"
SERVERS_PATTERN = r"^\s*[^\s,:/@]+:[0-9]{1,5}(?:\s*,\s*[^\s,:/@]+:[0-9]{1,5})*\s*$"
# Names of secrets and of sizes.
REFERENCE_PATTERN = r"^[a-z][a-z0-9_-]{0,63}$"
SCHEMA_FILE_PATTERN = r"^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,90}\.json$"
AVRO_FILE_PATTERN = r"^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,90}\.avsc$"
PROTOBUF_FILE_PATTERN = r"^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,90}\.desc$"
# Protobuf's rule for a message name with its package.
MESSAGE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*$"
# A Python name, because it becomes a parameter of the transform.
SOURCE_NAME_PATTERN = r"^[a-z][a-z0-9_]{0,39}$"
TRANSFORM_PATTERN = r"^[a-z][a-z0-9_]{0,63}(?::[A-Za-z_][A-Za-z0-9_]{0,63}|\.sql)$"
# A class or function of the project.
CODE_PATTERN = r"^[a-z][a-z0-9_]{0,63}:[A-Za-z_][A-Za-z0-9_]{0,63}$"
# <schema>.<table> as stored in a database. PostgreSQL truncates names at 63 bytes.
DATABASE_TABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,62}\.[A-Za-z_][A-Za-z0-9_]{0,62}$"
# A column may have any other name; Delta's tables refuse more (`NOT_IN_DELTA_NAMES`).
COLUMN_PATTERN = r"^[^\x00-\x1f\x7f]{1,255}$"
# Delta refuses ` ,;{}()\n\t=` in a column's name, and Delta 4.4 fails at a backtick.
NOT_IN_DELTA_NAMES = frozenset(" ,;{}()\n\t=`")


def _printable(text: str) -> str:
    # An expression may be a YAML block of several lines, but has no other control characters.
    if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text):
        raise ValueError("a control character stands in this text; remove it")
    return text


def _one_line(text: str) -> str:
    if not text.strip().isprintable() or not text.strip():
        raise ValueError("expected one line of text without control characters")
    return text.strip()


def _no_special_topic(topic: str) -> str:
    if topic in (".", ".."):
        raise ValueError("`.` and `..` cannot name a topic")
    return topic


def _in_delta(column: str) -> str:
    found = sorted(NOT_IN_DELTA_NAMES & set(column))
    if found:
        raise ValueError(
            f"a Delta table has no column with {found[0]!r} in its name: rename it in the transform"
        )
    return column


def _with_zone(table: object) -> object:
    """Refuse a table name in catalog form, and suggest the name that is probably meant."""
    if not isinstance(table, str) or re.fullmatch(TABLE_PATTERN, table):
        return table
    *parents, name = re.split(r"[./]", table.lower())
    zone = parents[-1] if parents and parents[-1] in ZONES else ZONES[0]
    meant = f"{zone}/{name}"
    near = f"; did you mean {meant}?" if re.fullmatch(TABLE_PATTERN, meant) else ""
    raise ValueError(f"a table is <zone>/<name>, of the zones {', '.join(ZONES)}{near}")


Sentence = Annotated[str, Field(max_length=MAX_SENTENCE), AfterValidator(_one_line)]
Line = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_one_line)]
Expression = Annotated[str, Field(min_length=1, max_length=MAX_EXPRESSION), AfterValidator(_printable)]
ColumnList = Annotated[
    str,
    Field(min_length=1, max_length=MAX_COLUMNS),
    AfterValidator(_printable),
    AfterValidator(check_columns),
]
ResultType = Annotated[Expression, AfterValidator(check_columns_or_type)]
Topic = Annotated[str, Field(pattern=TOPIC_PATTERN), AfterValidator(_no_special_topic)]
Servers = Annotated[str, Field(pattern=SERVERS_PATTERN, max_length=MAX_EXPRESSION)]
SecretName = Annotated[str, Field(pattern=REFERENCE_PATTERN)]
SizeName = Annotated[str, Field(pattern=REFERENCE_PATTERN)]
SourceName = Annotated[str, Field(pattern=SOURCE_NAME_PATTERN)]
Column = Annotated[str, Field(pattern=COLUMN_PATTERN)]
TableColumn = Annotated[Column, AfterValidator(_in_delta)]
TableName = Annotated[
    str,
    Field(pattern=f"^{TABLE_PATTERN}$", description="Table as <zone>/<name>."),
    BeforeValidator(_with_zone),
]
