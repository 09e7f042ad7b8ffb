"""Columns and types as Spark DDL, e.g. `device string, position struct<x: double, y: double>`.

The parser follows Spark's grammar (`colTypeList` and `dataType` in SqlBaseParser.g4), so that a wrong type is
found without a JVM. A test compares both parsers. Spark types that no decoder supports are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.spec.near_key import near_key

# Digits of a decimal, as in Spark, Arrow and Delta.
MAX_DIGITS = 38
# Maximum nesting of types that the parser accepts. Above the limit of tables (nesting.py), and far below
# Python's recursion limit of 1,000 calls.
MAX_DEPTH = 100
# Maximum characters of invalid text in an error.
SHOWN_CHARACTERS = 60

# Spark's names of each type, with the name that is used here.
_NAMES = {
    **{name: name for name in ("string", "boolean", "float", "double", "date", "timestamp", "binary")},
    **{name: name for name in ("tinyint", "smallint", "int", "bigint", "decimal", "char", "varchar")},
    **{name: name for name in ("timestamp_ntz", "struct", "array", "map")},
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "character": "char",
    "timestamp_ltz": "timestamp",
}
_NOT_DECODED = frozenset(("void", "interval", "variant", "time", "geography", "geometry"))
# Other systems' names for Spark's types, if the most similar name would be a wrong type.
_MEANT = {
    **dict.fromkeys(("text", "str", "uuid", "json", "nvarchar"), "string"),
    **dict.fromkeys(("bytes", "bytea", "blob", "varbinary"), "binary"),
    **dict.fromkeys(("datetime", "timestamptz"), "timestamp"),
    **dict.fromkeys(("float64", "number"), "double"),
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "list": "array",
    "object": "struct",
}

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)"""
    r"""|`(?P<quoted>(?:[^`]|``)+)`"""
    r"""|(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"""|(?P<word>\w+)"""
    r"""|(?P<sign>[<>(),:])""",
    re.DOTALL,
)
# A number of Spark's SQL is not a name, while `1st` is one.
_NUMBER = re.compile(r"\d+(?:e\d+)?(?:[lsydf]|bd)?", re.IGNORECASE)


@dataclass(frozen=True)
class DdlType:
    """A type.

    Args:
        name: Spark's name in lower case; one name for all synonyms.
        numbers: Precision and scale of a decimal, or the length of a char or varchar.
        fields: Fields of a struct.
        parts: Type of an array's elements, or types of a map's keys and values.
    """

    name: str
    numbers: tuple[int, ...] = ()
    fields: tuple[DdlColumn, ...] = ()
    parts: tuple[DdlType, ...] = ()


@dataclass(frozen=True)
class DdlColumn:
    """A column of a table, or a field of a struct."""

    name: str
    type: DdlType
    required: bool = False


def parse_columns(ddl: str) -> tuple[DdlColumn, ...]:
    """Read `name type [NOT NULL] [COMMENT 'text'], …`.

    Raises:
        ValueError: Names the column and the problem.
    """
    parser = _Parser(ddl)
    columns = parser.columns(end="")
    parser.expect_end("`,`, `NOT NULL` or `COMMENT`")
    return columns


def check_columns_or_type(ddl: str) -> str:
    """Return `ddl` if it is one type or a list of columns.

    Raises:
        ValueError: Describes the problem.
    """
    parser = _Parser(ddl)
    if parser.begins_with_column():
        parse_columns(ddl)
    else:
        parser.type("the type")
        parser.expect_end("nothing more")
    return ddl


def check_columns(ddl: str) -> str:
    """Return `ddl` if it is a list of columns.

    Raises:
        ValueError: Describes the problem.
    """
    parse_columns(ddl)
    return ddl


def levels_of(kind: str) -> int:
    """Return the nesting depth of structs, arrays and maps in a type, given as DDL or as Arrow's text."""
    deepest = depth = 0
    for character in re.sub(r"`[^`]*`", "", kind):
        depth += (character == "<") - (character == ">")
        deepest = max(deepest, depth)
    return deepest


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str

    @property
    def shown(self) -> str:
        return ascii(self.text[:SHOWN_CHARACTERS]) if self.kind else "the end"


_END = _Token("", "")


def _tokens(ddl: str) -> Iterator[_Token]:
    place = 0
    while place < len(ddl):
        match = _TOKEN.match(ddl, place)
        if match is None:
            raise ValueError(f"this cannot be read: {ddl[place : place + SHOWN_CHARACTERS]!a}")
        place = match.end()
        kind = match.lastgroup or ""
        if kind != "space":
            yield _Token(kind, match[kind].replace("``", "`") if kind == "quoted" else match[kind])


class _Parser:
    """A recursive-descent parser over the tokens of one DDL text."""

    def __init__(self, ddl: str) -> None:
        self._tokens = [*_tokens(ddl), _END]
        self._place = 0
        self._depth = 0

    def begins_with_column(self) -> bool:
        first, second = self._tokens[0], self._tokens[min(1, len(self._tokens) - 1)]
        return first.kind == "quoted" or (
            first.kind == "word" and (second.kind in ("word", "quoted") or second.text == ":")
        )

    def columns(self, end: str) -> tuple[DdlColumn, ...]:
        """Return the columns up to a closing sign, which is not consumed."""
        found: dict[str, DdlColumn] = {}
        while True:
            column = self._column(end)
            if column.name.lower() in found:
                raise ValueError(f"the column {column.name!a} is declared twice")
            found[column.name.lower()] = column
            if not self._take(","):
                return tuple(found.values())

    def type(self, of: str) -> DdlType:
        token = self._next()
        word = token.text.lower() if token.kind == "word" else ""
        name = _NAMES.get(word)
        if name is None:
            raise ValueError(_unknown_type(of, token))
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"{of} is nested deeper than {MAX_DEPTH} levels")
        found = self._complex(name, of) if name in ("struct", "array", "map") else self._simple(name, of)
        self._depth -= 1
        return found

    def expect_end(self, instead: str) -> None:
        if self._peek() is not _END:
            before = " ".join(token.text for token in self._tokens[max(0, self._place - 2) : self._place])
            raise ValueError(
                f"after {before[:SHOWN_CHARACTERS]!a}, expected {instead}; found {self._peek().shown}"
            )

    def _column(self, end: str) -> DdlColumn:
        token = self._next()
        is_name = token.kind == "quoted" or (token.kind == "word" and not _NUMBER.fullmatch(token.text))
        if not is_name:
            raise ValueError(f"expected a column as `name type`; found {token.shown}")
        if token.kind == "word" and not token.text.isascii():
            raise ValueError(f"a name with letters beyond a to z is in backticks: `{token.text}`")
        self._take(":")
        if self._peek() is _END or self._peek().text in (",", end):
            raise ValueError(f"{token.shown} has no type; a column is `name type`")
        kind = self.type(token.shown)
        required = self._take("not", "null")
        if self._take("comment") and self._next().kind != "text":
            raise ValueError(f"{token.shown}: after COMMENT, expected a text in quotes")
        return DdlColumn(token.text, kind, required)

    def _complex(self, name: str, of: str) -> DdlType:
        self._expect("<", of, name)
        if name == "struct":
            fields = self.columns(">")
            self._expect(">", of, name)
            return DdlType(name, fields=fields)
        parts = [self.type(of)]
        if name == "map":
            self._expect(",", of, name)
            parts.append(self.type(of))
        self._expect(">", of, name)
        return DdlType(name, parts=tuple(parts))

    def _simple(self, name: str, of: str) -> DdlType:
        numbers = self._numbers(of)
        if name == "decimal":
            return DdlType(name, _digits(numbers, of))
        takes = 1 if name in ("char", "varchar") else 0
        if len(numbers) != takes:
            needs = f"a length, e.g. {name}(10)" if takes else "no number"
            raise ValueError(f"{of}: the type {name} takes {needs}")
        return DdlType(name, numbers)

    def _numbers(self, of: str) -> tuple[int, ...]:
        if not self._take("("):
            return ()
        found = []
        while True:
            token = self._next()
            # Spark reads the number as a Java int.
            if not re.fullmatch(r"[0-9]{1,10}", token.text) or int(token.text) >= 2**31:
                raise ValueError(f"{of}: expected a whole number in brackets; found {token.shown}")
            found.append(int(token.text))
            if not self._take(","):
                break
        self._expect(")", of, "number")
        return tuple(found)

    def _peek(self) -> _Token:
        return self._tokens[self._place]

    def _next(self) -> _Token:
        token = self._peek()
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token

    def _take(self, *texts: str) -> bool:
        """Consume these tokens if all of them come next, and return True; otherwise consume none."""
        following = self._tokens[self._place : self._place + len(texts)]
        if [token.text.lower() for token in following if token.kind in ("word", "sign")] != list(texts):
            return False
        self._place += len(texts)
        return True

    def _expect(self, sign: str, of: str, name: str) -> None:
        if not self._take(sign):
            raise ValueError(f"{of}: expected `{sign}` in its {name}; found {self._peek().shown}")


def _digits(numbers: tuple[int, ...], of: str) -> tuple[int, int]:
    if len(numbers) > 2:
        raise ValueError(f"{of}: a decimal takes two numbers, its digits and how many are after the point")
    digits, scale = (*numbers, *(10, 0)[len(numbers) :])
    if not 0 < digits <= MAX_DIGITS or scale > digits:
        raise ValueError(
            f"{of}: decimal({digits}, {scale}) does not exist: a decimal has 1 to {MAX_DIGITS} digits, of "
            "which at most all are after the point"
        )
    return digits, scale


def _unknown_type(of: str, token: _Token) -> str:
    word = token.text.lower()
    if word in _NOT_DECODED:
        return f"{of} has Spark's type {word}, which no decoder fills"
    near = _MEANT.get(word) or near_key(word, _NAMES)
    return f"{of} has the type {token.shown}, which Spark does not know" + (
        f"; did you mean {near}?" if near else f"; there are {', '.join(_NAMES)}"
    )
