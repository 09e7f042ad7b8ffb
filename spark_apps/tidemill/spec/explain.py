"""Errors of conf files, made from pydantic's errors: problem, key, similar key and fix, without values."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidemill.errors import SpecError
from tidemill.spec.near_key import near_key
from tidemill.spec.refusal import RefusedError
from tidemill.spec.spark_words import instead_of, snake_case

if TYPE_CHECKING:
    from tidemill.spec.yaml_file import YamlFile

# Maximum characters of a key to show. Longer keys are mistakes that must not flood a terminal.
SHOWN_KEY_CHARACTERS = 60

# Messages in YAML terms for errors that pydantic describes in Python terms.
_WORDS = {
    "missing": "missing",
    "model_type": "expected keys and values below this key",
    "dict_type": "expected keys and values below this key",
    "list_type": "expected a list; start each item with `- `",
    "string_type": "expected text; put a number, true or false that is meant as text in quotes",
}


def explain(file: YamlFile, model: type[BaseModel], error: ValidationError) -> SpecError:
    """Return the error of a file that does not fit `model`: all problems, and the fix of the first."""
    # Unknown keys come first, because they often explain missing ones.
    details = sorted(
        error.errors(include_input=False, include_url=False),
        key=lambda detail: detail["type"] != "extra_forbidden",
    )
    first = details[0]
    refused = first.get("ctx", {}).get("error")
    if isinstance(refused, RefusedError):
        where = {
            "file": f"{file.path}:{file.line_of(tuple(first['loc']))}",
            "key": _key_path(first["loc"]) or "(file)",
        }
        return refused.refusal.error(where | refused.found)
    near, instead = _near(first, model)
    fix = (
        f"write `{near}` instead of `{_shown(first['loc'][-1])}`"
        if near
        else instead or "correct the key; all keys are in conf/README.md"
    )
    facts = {"file": file.path, "key": _key_path(first["loc"]) or "(file)"}
    return SpecError(
        "TIDE-SPEC-003",
        "\n  ".join(["A conf file is wrong.", *(_problem(file, model, detail) for detail in details)]),
        facts={**facts, "near_key": near} if near else facts,
        fix=fix,
    )


def _problem(file: YamlFile, model: type[BaseModel], detail: ErrorDetails) -> str:
    location = tuple(detail["loc"])
    where = f"{file.path.name}:{file.line_of(location)}  {_key_path(location) or '(file)'}"
    if detail["type"] == "extra_forbidden":
        near, instead = _near(detail, model)
        hint = f"; did you mean `{near}`?" if near else f", a word of Spark; {instead}" if instead else ""
        return f"{where}: unknown key{hint}"
    message = _WORDS.get(detail["type"]) or detail["msg"].removeprefix("Value error, ")
    return f"{where}: {message}"


def _key_path(location: Iterable[int | str]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{_shown(part)}" if path else _shown(part)
    return path


def _shown(key: int | str) -> str:
    text = str(key)
    printable = text if text.isprintable() else ascii(text)[1:-1]
    return printable if len(printable) <= SHOWN_KEY_CHARACTERS else printable[:SHOWN_KEY_CHARACTERS] + "…"


def _near(detail: ErrorDetails, model: type[BaseModel]) -> tuple[str | None, str | None]:
    """Return the key that an unknown key probably means, or the replacement of a Spark name."""
    if detail["type"] != "extra_forbidden":
        return None, None
    *parents, last = detail["loc"]
    key, keys = str(last), _keys_at(model, parents)
    if snake_case(key) in keys:
        return snake_case(key), None
    instead = instead_of(key, keys)
    return (None, instead) if instead else (near_key(key, keys), None)


def _keys_at(model: type[BaseModel], parents: Iterable[int | str]) -> list[str]:
    """Return the valid keys at a place, from the model's JSON Schema."""
    schema = _json_schema(model)
    definitions = schema.get("$defs", {})
    node = schema
    for part in parents:
        child = node.get("items", {}) if isinstance(part, int) else node.get("properties", {}).get(part)
        if child is None:
            child = node.get("additionalProperties") or {}
        node = _resolve(child, definitions)
    return list(node.get("properties", {}))


@cache
def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema, read-only. It is cached because it takes most of the time of a check."""
    return model.model_json_schema(by_alias=True)


def _resolve(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    for choice in node.get("anyOf", []):
        if "$ref" in choice or choice.get("type") in ("object", "array"):
            node = choice
    reference = node.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else node
