"""Reader of conf files in a small, safe subset of YAML.

A file is one document of maps, lists and scalars. A scalar is text unless it is a number, `true`, `false` or
null, so that `no`, `on`, `10:30`, `010` and `2024-01-01` stay text (YAML 1.1 would read them as booleans,
630, 8 and a date). Keys are text and unique. Anchors, aliases and tags are refused, so that each value is
where it applies and a file cannot grow when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from tidemill.errors import SpecError
from tidemill.spec.explain import explain
from tidemill.spec.secret_leak import refuse_secrets

Model = TypeVar("Model", bound=BaseModel)
_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Maximum characters of a file. The longest real pipeline file has fewer than 5,000. A data file that was put
# here by mistake must be refused before it is parsed.
MAX_FILE_CHARACTERS = 262_144

# Maximum nesting of maps and lists. The models are 6 levels deep. libyaml recurses in C and crashes the
# process at about 10,000 levels.
MAX_DEPTH = 32

_TEXT = "tag:yaml.org,2002:str"
_PLAIN_TAGS = {
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "map", "seq")
}


class _RefusedError(Exception):
    """A construct that conf files do not use.

    Args:
        line: Line, from 1.
        reason: The problem, without values.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(frozen=True)
class YamlFile:
    """One parsed file.

    Args:
        path: Path of the file.
        content: Maps, lists and scalars.
        lines: Line of each key and list item by its path in the document.
    """

    path: Path
    content: Any
    lines: dict[tuple[int | str, ...], int]

    def line_of(self, location: tuple[int | str, ...]) -> int:
        """Return the line of a key, or of its nearest parent key in the file."""
        known = (location[:length] for length in range(len(location), 0, -1))
        return next((self.lines[part] for part in known if part in self.lines), 1)


def read_yaml(path: Path) -> YamlFile:
    """Parse one file.

    Raises:
        SpecError: TIDE-SPEC-001 if it cannot be read, TIDE-SPEC-002 if it is not such YAML,
            TIDE-SPEC-004 if it contains a secret.
    """
    text = _read_text(path)
    lines: dict[tuple[int | str, ...], int] = {}
    try:
        _check_events(text)
        root = yaml.compose(text, Loader=_Loader)
        content = None if root is None else _value(root, (), lines)
    except (_RefusedError, yaml.YAMLError) as error:
        raise _not_yaml(path, error) from error
    file = YamlFile(path, content, lines)
    refuse_secrets(file)
    return file


def read_model(path: Path, model: type[Model]) -> Model:
    """Read one file as `model`.

    Raises:
        SpecError: TIDE-SPEC-003 with one problem per line, each with its line, key path and similar key.
    """
    file = read_yaml(path)
    if not isinstance(file.content, dict):
        raise SpecError(
            "TIDE-SPEC-003",
            "The file does not hold keys and values.",
            facts={"file": path, "found": _kind(file.content)},
            fix="see conf/README.md for all keys",
        )
    try:
        return model.model_validate(file.content)
    except ValidationError as error:
        raise explain(file, model, error) from error


def _read_text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        # A decoding error would print the surrounding bytes.
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SpecError(
            "TIDE-SPEC-001", "A file cannot be read.", facts={"file": path, "reason": reason}
        ) from None
    if len(text) > MAX_FILE_CHARACTERS:
        raise SpecError(
            "TIDE-SPEC-001",
            "A file is too long for a conf file.",
            facts={"file": path, "characters": len(text), "limit": MAX_FILE_CHARACTERS},
            fix="is this a data file in the wrong folder?",
        )
    return text


def _check_events(text: str) -> None:
    """Refuse deep nesting and aliases before anything is built, because building recurses."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _RefusedError(_line(event), f"maps and lists are more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _RefusedError(_line(event), "anchors (&) and aliases (*) are not used here")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _value(node: yaml.Node, location: tuple[int | str, ...], lines: dict[tuple[int | str, ...], int]) -> Any:
    if node.tag not in _PLAIN_TAGS:
        raise _RefusedError(node.start_mark.line + 1, "tags (!) are not used here")
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, location, lines)
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            lines[(*location, index)] = item.start_mark.line + 1
            items.append(_value(item, (*location, index), lines))
        return items
    return _scalar(node.tag, node.value)


def _mapping(
    node: yaml.MappingNode, location: tuple[int | str, ...], lines: dict[tuple[int | str, ...], int]
) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise _RefusedError(line, "a key is a list or a map")
        if key.value in mapping:
            raise _RefusedError(line, f"the key {key.value[:80]!a} stands twice in one map")
        lines[(*location, key.value)] = line
        mapping[key.value] = _value(value, (*location, key.value), lines)
    return mapping


def _scalar(tag: str, text: str) -> str | int | float | bool | None:
    kind = tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in ("int", "float"):
        try:
            return int(text.replace("_", ""), 0) if kind == "int" else float(text.replace("_", ""))
        except ValueError:
            return text
    return text


def _kind(content: object) -> str:
    return {"NoneType": "nothing", "list": "a list"}.get(type(content).__name__, "a single value")


def _not_yaml(path: Path, error: _RefusedError | yaml.YAMLError) -> SpecError:
    if isinstance(error, _RefusedError):
        line, reason = error.line, error.reason
    else:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        reason = getattr(error, "problem", None) or "it holds a character that YAML does not allow"
    return SpecError(
        "TIDE-SPEC-002",
        "A file is not valid YAML.",
        facts={"file": f"{path}:{line}" if line else path, "reason": reason},
        fix="indent by spaces, never tabs; quote values that hold `: `, ` #`, `{` or `*`",
    )
