"""Translate Spark SQL for DataFusion where the same text has different meanings. Pure: text in, text out.

Both engines run most queries alike. A text that would give two results is rewritten so that DataFusion gives
Spark's result. If that is impossible, it is refused, because a wrong result looks like a right one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidemill.errors import UsageError

_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|[A-Za-z_]\w*|[0-9][\w.]*|\s+|.", re.DOTALL
)
_TICKS = re.compile(
    r"(?P<other>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/)|`(?P<name>(?:[^`]|``)*)`", re.DOTALL
)
_STRING = re.compile(r"'(?:[^']|'')*'")
_OPERATORS = frozenset("+-*/%|<>=")
# Words after which a bracket begins an array; after other words, it selects an element.
_BEFORE_ARRAYS = frozenset(
    {
        *("array", "select", "distinct", "all", "where", "having", "on", "and", "or", "not", "in"),
        *("then", "else", "when", "case", "between", "by", "as"),
    }
)
_NEGATIVE = re.compile(r"-\s*([0-9]+)")
_DAY_OF_WEEK = re.compile(r"(dow|dayofweek)\s+from\s", re.IGNORECASE)

# A part of a Spark pattern: a run of one letter, a quoted text, or any other character.
_PATTERN_PART = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<text>(?:[^']|'')*)'|(?P<other>.)", re.DOTALL)
# Spark's pattern letters and their chrono equivalents, which DataFusion uses.
_CHRONO = {
    "y": "%Y",
    "yyyy": "%Y",
    "yy": "%y",
    "u": "%Y",
    "uuuu": "%Y",
    "M": "%-m",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "L": "%-m",
    "LL": "%m",
    "d": "%-d",
    "dd": "%d",
    "D": "%-j",
    "DDD": "%j",
    "E": "%a",
    "EE": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "H": "%-H",
    "HH": "%H",
    "h": "%-I",
    "hh": "%I",
    "m": "%-M",
    "mm": "%M",
    "s": "%-S",
    "ss": "%S",
    "SSS": "%3f",
    "SSSSSS": "%6f",
    "SSSSSSSSS": "%9f",
    "a": "%p",
}


def in_datafusion(text: str, names: Iterable[str] = ()) -> str:
    """Return a Spark query as a DataFusion query.

    Args:
        text: The query, without backticks (`without_backticks`).
        names: Columns and fields of the tables that it reads. Spark ignores the case of names; DataFusion
            finds only lower-case ones.

    Raises:
        UsageError: TIDE-QUERY-008, for a call that DataFusion cannot run as Spark does.
    """
    words = _TOKEN.findall(text)
    headed = _TOKEN.findall("".join(_with_headings(words)))
    exact = _exact_names([*names, *_aliases(headed)])
    return _Translation(headed, exact).whole()


def without_backticks(text: str) -> str:
    """Return a Spark query with double quotes instead of backticks around names."""

    def quoted(part: re.Match[str]) -> str:
        name = part["name"]
        return part["other"] if name is None else '"' + name.replace("``", "`").replace('"', '""') + '"'

    return _TICKS.sub(quoted, text)


@dataclass
class _Translation:
    """A translation in progress; calls are translated from the inside out."""

    words: Sequence[str]
    exact: Mapping[str, str]
    place: int = 0

    def whole(self) -> str:
        parts = []
        while self.place < len(self.words):
            parts.append(self._until_closed()[0])
            if self.place < len(self.words):
                # An unmatched closing parenthesis, which DataFusion reports.
                parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        self.place += 1
        return self.words[self.place - 1]

    def _until_closed(self) -> tuple[str, list[str]]:
        """Return the text before the next closing parenthesis, and its parts between commas."""
        parts = [""]
        while self.place < len(self.words) and self.words[self.place] != ")":
            word = self._next()
            if word == ",":
                parts.append("")
            elif word == "(":
                parts[-1] += f"({self._inside()[0]})"
            elif _is_word(word) and self._peek() == "(":
                parts[-1] += self._call(word)
            else:
                parts[-1] += self._plain(word)
        return ",".join(parts), parts

    def _inside(self) -> tuple[str, list[str]]:
        """Return the text in parentheses; the opening one was already consumed."""
        found = self._until_closed()
        self.place += 1
        return found

    def _call(self, name: str) -> str:
        while self._next() != "(":
            pass
        text, arguments = self._inside()
        rule = _RULES.get(name.lower())
        translated = None if rule is None else rule([argument.strip() for argument in arguments])
        return f"{name}({text})" if translated is None else translated

    def _plain(self, word: str) -> str:
        if word == "[" and self._is_subscript():
            raise _refusal(
                "a number in brackets",
                "write array_element(column, 1), which counts from 1; Spark's counts from 0",
            )
        if word == "/":
            # Spark divides whole numbers into a fraction.
            return "* 1.0 /"
        # `DATE '2026-01-01'` is a literal, not a column.
        return word if self._peek().startswith("'") else self.exact.get(word.lower(), word)

    def _is_subscript(self) -> bool:
        """Return True if the consumed bracket selects an element by number; `ARRAY[1]` makes an array."""
        before = next((word for word in self.words[self.place - 2 :: -1] if not word.isspace()), "")
        inside = [word for word in self.words[self.place : self.place + 4] if not word.isspace()][:2]
        follows = before in (")", "]") or before.startswith('"') or (before[:1].isidentifier())
        is_number = len(inside) == 2 and inside[0].isdecimal() and inside[1] == "]"
        return self.place > 1 and follows and before.lower() not in _BEFORE_ARRAYS and is_number

    def _peek(self) -> str:
        """Return the next word that is not white space."""
        return next((word for word in self.words[self.place :] if not word.isspace()), "")


def _is_word(word: str) -> bool:
    return word[0].isalpha() or word[0] == "_"


def _exact_names(names: Iterable[str]) -> dict[str, str]:
    """Return quoted names with capital letters by their lower case; ambiguous names are left out."""
    found: dict[str, set[str]] = {}
    for name in names:
        found.setdefault(name.lower(), set()).add(name)
    return {
        lower: f'"{next(iter(same))}"'
        for lower, same in found.items()
        if len(same) == 1 and same != {lower} and re.fullmatch(r"[A-Za-z_]\w*", lower)
    }


def _aliases(words: Sequence[str]) -> Iterator[str]:
    """Yield the names that a query assigns with AS; the type of a cast is not one."""
    words = [word for word in words if not word.isspace()]
    opened: list[bool] = []
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        if word == "(":
            opened.append(before.lower() in ("cast", "try_cast"))
        elif word == ")" and opened:
            opened.pop()
        elif word.lower() == "as" and not (opened and opened[-1]):
            # `WITH daily AS (…)` also assigns a name.
            yield (before if after == "(" else after).strip('"')


def _with_headings(words: Sequence[str]) -> Iterator[str]:
    """Yield a query whose columns have Spark's names, such as `max(amount)`.

    DataFusion names a column by its own form of the expression, with the table and the types.
    """
    depth, item = 0, list[str]()
    # The outermost SELECT: 0 before it, 1 in its list, 2 after the list.
    state = 0
    for word in words:
        ends = depth == 0 and state == 1 and (word == "," or word.lower() == "from")
        if ends:
            yield from _named(item)
            item, state = [], 1 if word == "," else 2
        depth += (word == "(") - (word == ")")
        if state == 1 and not ends:
            item.append(word)
        else:
            yield word
        if depth == 0 and state == 0 and word.lower() == "select":
            state = 1
    yield from _named(item)


def _named(item: list[str]) -> Iterator[str]:
    """Yield an item of a SELECT, with a heading if it is a call without one."""
    words = [word for word in item if not word.isspace() and not word.startswith(("--", "/*"))]
    if words and words[0].lower() in ("distinct", "all"):
        words = words[1:]
        first = next(place for place, word in enumerate(item) if not word.isspace()) + 1
        yield from item[:first]
        item = item[first:]
    if len(words) > 2 and words[-2].lower() == "as" and _is_word(words[-1]):
        last = len(item) - 1 - item[::-1].index(words[-1])
        item[last] = f'"{words[-1]}"'
    yield from item
    if _is_expression(words) and not _has_alias(words):
        text = " ".join("".join(word for word in item if not word.startswith(("--", "/*"))).split())
        heading = text.replace('"', '""')
        yield f' AS "{heading}" '


def _is_expression(words: Sequence[str]) -> bool:
    """Return True if words end with a call or after an operator, so the last is not an alias without AS."""
    begin = len(words) - 1
    while begin > 1 and words[begin - 1] == ".":
        begin -= 2
    return begin > 0 and (words[-1] == ")" or (words[begin - 1] in _OPERATORS and words[-1] != "*"))


def _has_alias(words: Sequence[str]) -> bool:
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.lower() == "as":
            return True
    return False


def _pattern(function: str) -> Callable[[list[str]], str | None]:
    """Return the rule of a function whose second argument is a pattern."""

    def rule(arguments: list[str]) -> str | None:
        if len(arguments) != 2 or "%" in arguments[1]:
            return None
        if _STRING.fullmatch(arguments[1]) is None:
            raise _refusal(function, "write the pattern as a text, such as 'yyyy-MM-dd'")
        pattern = arguments[1][1:-1].replace("''", "'")
        return f"{function}({arguments[0]}, '{_chrono(function, pattern)}')"

    return rule


def _chrono(function: str, pattern: str) -> str:
    made = []
    for part in _PATTERN_PART.finditer(pattern):
        letters, text = part["letters"], part["text"]
        if letters is not None and letters not in _CHRONO:
            raise _refusal(
                function, f"leave `{letters}` out of the pattern, or write a pattern of chrono's (%Y)"
            )
        plain = part["other"] if text is None else (text.replace("''", "'") or "'")
        made.append(_CHRONO[letters] if letters is not None else (plain or "").replace("'", "''"))
    return "".join(made)


def _log(arguments: list[str]) -> str | None:
    return f"ln({arguments[0]})" if len(arguments) == 1 else None


def _replace_all(arguments: list[str]) -> str | None:
    return f"regexp_replace({', '.join(arguments)}, 'g')" if len(arguments) == 3 else None


def _concat(arguments: list[str]) -> str | None:
    """Return null if any argument is null, as Spark does; DataFusion leaves nulls out."""
    columns = [argument for argument in arguments if _STRING.fullmatch(argument) is None]
    if not columns:
        return None
    has_null = " OR ".join(f"({column}) IS NULL" for column in columns)
    return f"CASE WHEN {has_null} THEN NULL ELSE concat({', '.join(arguments)}) END"


def _from_the_end(arguments: list[str]) -> str | None:
    """Count a negative start from the end, as Spark does; in DataFusion it is before the text."""
    start = _NEGATIVE.fullmatch(arguments[1]) if len(arguments) > 1 else None
    if start is None:
        return None
    if len(arguments) > 2:
        raise _refusal("substring", f"write right(text, {start[1]}), and substring of that")
    return f"right({arguments[0]}, {start[1]})"


def _day_of_week(arguments: list[str]) -> str | None:
    """Return 1 for Sunday, as Spark does; DataFusion returns 0."""
    if len(arguments) == 2 and arguments[0].lower() in ("'dow'", "'dayofweek'"):
        return f"(date_part('dow', {arguments[1]}) + 1)"
    if len(arguments) == 1 and _DAY_OF_WEEK.match(arguments[0]):
        return f"(date_part('dow', {_DAY_OF_WEEK.sub('', arguments[0], 1)}) + 1)"
    return None


def _remove_all(arguments: list[str]) -> str | None:
    return f"array_remove_all({', '.join(arguments)})"


def _without_nulls(arguments: list[str]) -> str | None:
    value = arguments[0]
    if len(arguments) != 1 or re.search(r"\b(distinct|order)\b", value, re.IGNORECASE):
        raise _refusal("array_agg", "write array_agg(column), which leaves nulls out as Spark's does")
    return f"array_agg({value}) FILTER (WHERE ({value}) IS NOT NULL)"


_RULES: Mapping[str, Callable[[list[str]], str | None]] = {
    "array_agg": _without_nulls,
    "array_remove": _remove_all,
    "concat": _concat,
    "date_format": _pattern("date_format"),
    "date_part": _day_of_week,
    "extract": _day_of_week,
    "log": _log,
    "regexp_replace": _replace_all,
    "substr": _from_the_end,
    "substring": _from_the_end,
    "to_char": _pattern("to_char"),
    "to_date": _pattern("to_date"),
    "to_timestamp": _pattern("to_timestamp"),
}


def _refusal(function: str, fix: str) -> UsageError:
    return UsageError(
        "TIDE-QUERY-008",
        "This call means something else in Spark than in DataFusion, which runs the query. Nothing was read.",
        facts={"function": function},
        fix=fix,
    )
