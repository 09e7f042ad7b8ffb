"""Commands of `tidemill` that texts of the product name, and a check that the command line takes them."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer.main
from typer._click.exceptions import BadParameter, ClickException, MissingParameter

from tidemill.cli.app import app

# Stands for a value that is known at run time only.
VALUE = "VALUE"

_QUOTED = re.compile(r"`(tidemill [^`]*)`")
# A command that is not in backquotes: up to the end of its clause, but not inside of quotes.
_CLAUSE = re.compile(r"(?:'[^']*'|(?![;:,.)]+(?:\s|$)| \(|\n).)*")
# A field of `str.format`.
_FIELD = re.compile(r"{[a-z_]+}")
_ANY = re.compile(r"(?<![\w/.-])tidemill ([a-z]+)\b")


@dataclass(frozen=True)
class NamedCommand:
    """A command in a text.

    Args:
        place: File and line.
        text: The command, with `VALUE` in the place of each value.
    """

    place: str
    text: str


def named_commands(folder: Path) -> Iterator[NamedCommand]:
    """Find the commands in the string literals of Python files, without docstrings."""
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for line, text in literals(tree):
            place = f"{path.relative_to(folder)}:{line}"
            yield from (NamedCommand(place, command) for command in commands_of(text))


def commands_of(text: str) -> Iterator[str]:
    """Find the commands in a text: those in backquotes, and those that end where their clause ends."""
    yield from (match[1] for match in _QUOTED.finditer(text))
    rest = _QUOTED.sub("", text)
    for match in _ANY.finditer(rest):
        if match[1] in root().commands:
            clause = _CLAUSE.match(rest, match.start())
            assert clause is not None
            yield clause[0].strip()


def refusal(command: str) -> str | None:
    """Return the command line's reason for refusing a command; None if it takes it.

    A command without arguments is its name. Words such as PIPELINE are placeholders.
    """
    words = shlex.split(command.replace(" …", ""))[1:]
    current, context = root(), None
    try:
        while words and hasattr(current, "commands") and not words[0].startswith("-"):
            if words[0] == VALUE:
                return None
            context = current.context_class(current, info_name=current.name, parent=context)
            _, current, words = current.resolve_command(context, words)
        if words:
            current.make_context(current.name, list(words), parent=context)
    except MissingParameter as error:
        return str(error)
    except BadParameter as error:
        return None if any(word.isupper() for word in words) else str(error)
    except ClickException as error:
        return str(error)
    return None


def command_of(command: str) -> Any:
    """Return the command of a command line."""
    current = root()
    for word in command.split()[1:]:
        if not hasattr(current, "commands") or word not in current.commands:
            break
        current = current.commands[word]
    return current


@cache
def root() -> Any:
    """Return the whole command line, a group of typer's own copy of click."""
    return typer.main.get_command(app)


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find the string literals with their lines, without docstrings; those that are added are one."""
    if isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant):
        return
    text = _text_of(tree)
    if text is not None:
        yield getattr(tree, "lineno", 0), text
        return
    for child in ast.iter_child_nodes(tree):
        yield from literals(child)


def _text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return _FIELD.sub(VALUE, node.value) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) or VALUE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text_of(node.left), _text_of(node.right)
        return None if left is None and right is None else (left or VALUE) + (right or VALUE)
    return None
