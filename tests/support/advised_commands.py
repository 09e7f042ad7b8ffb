"""The commands that fixes name, by error id, read from the source code of the product."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.support.named_commands import VALUE, commands_of, literals, root

_ID = re.compile(r"TIDE-[A-Z0-9]+-\d{3}")
_PACKAGES = ("tidemill", "tidemill_airflow")
# Matches a module that creates an error, or contains a text with a command.
_OF_INTEREST = re.compile(r'"TIDE-[A-Z0-9]+-\d{3}"|Error\(|\btidemill [a-z{]')


@dataclass(frozen=True)
class AdvisedCommands:
    """Heads of commands, such as `checkpoint rewind`, that texts of the product name.

    A value that is known only at run time is `VALUE` in a head.

    Args:
        by_id: Commands in the fix of an error, finding or warning, by its id.
        others: Commands in other texts, by module: next steps, help, and fixes whose id is in another place.
    """

    by_id: Mapping[str, frozenset[str]]
    others: Mapping[str, frozenset[str]]


def advised_commands(*folders: Path) -> AdvisedCommands:
    """Return the commands that texts of the product name."""
    trees = {name: tree for folder in folders for name, tree in _trees(folder)}
    constants = _constants(trees)
    modules = {name: _Module(name, tree, constants) for name, tree in trees.items()}
    by_id: dict[str, set[str]] = defaultdict(set)
    of_errors: set[tuple[str, int, str]] = set()
    for module in modules.values():
        for call, inside in module.errors:
            for text in _Texts(modules, module, constants).of(_fix_of(call), module, inside):
                of_errors.add(text)
                by_id[_id_of(call, constants)].update(map(head, commands_of(text[2])))
    others: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for line, text in literals(module.tree):
            if (module.name, line, text) not in of_errors:
                others[module.name].update(map(head, commands_of(text)))
    return AdvisedCommands(_frozen(by_id), _frozen(others))


def _frozen(found: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {key: frozenset(heads) for key, heads in found.items() if heads}


def head(command: str) -> str:
    """Return the name of a command without its arguments: `checkpoint rewind`."""
    current, names = root(), []
    for word in command.split()[1:]:
        if not hasattr(current, "commands") or (word not in current.commands and word != VALUE):
            break
        names.append(word)
        current = current.commands.get(word)
    return " ".join(names)


def _trees(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        text = path.read_text(encoding="utf-8")
        if _OF_INTEREST.search(text):
            yield ".".join(parts).removesuffix(".__init__"), ast.parse(text)


def _id_of(call: ast.Call, constants: Mapping[str, str]) -> str:
    """Return the id, or the id behind a constant, of the error that a call creates; empty for other calls."""
    for argument in call.args[:3]:
        first = argument.elts[0] if isinstance(argument, ast.Tuple) and argument.elts else argument
        if isinstance(first, ast.Name) and first.id in constants:
            return constants[first.id]
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and _ID.fullmatch(first.value):
            return first.value
    return ""


def _constants(trees: Mapping[str, ast.Module]) -> Mapping[str, str]:
    """Return the error ids that modules assign to a name; a name has one meaning in the whole product."""
    found: dict[str, str] = {}
    for node in (node for tree in trees.values() for node in tree.body if isinstance(node, ast.Assign)):
        target, value = node.targets[0], node.value
        if (
            isinstance(target, ast.Name)
            and isinstance(value, ast.Constant)
            and _ID.fullmatch(str(value.value))
        ):
            assert found.setdefault(target.id, str(value.value)) == value.value, target.id
    return found


def _fix_of(call: ast.Call) -> ast.AST:
    """Return the `fix` argument; the whole call if no argument has this name."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == "fix"), call)


@dataclass(frozen=True, eq=False)
class _Module:
    name: str
    tree: ast.Module
    constants: Mapping[str, str]

    @cached_property
    def errors(self) -> list[tuple[ast.Call, ast.AST]]:
        """Return calls that create an error, each with its enclosing function or module."""
        return list(_calls(self.tree, self.tree, self.constants))

    @cached_property
    def defined(self) -> Mapping[str, ast.AST]:
        return _assigned(self.tree)

    @cached_property
    def imported(self) -> Mapping[str, str]:
        """Return the modules of the product from which names are imported."""
        froms = (node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom))
        ours = (node for node in froms if (node.module or "").partition(".")[0] in _PACKAGES)
        return {alias.asname or alias.name: str(node.module) for node in ours for alias in node.names}


def _calls(
    node: ast.AST, inside: ast.AST, constants: Mapping[str, str]
) -> Iterator[tuple[ast.Call, ast.AST]]:
    if isinstance(node, ast.Call) and _id_of(node, constants):
        yield node, inside
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, node if is_function else inside, constants)


@cache
def _assigned(tree: ast.AST) -> Mapping[str, ast.AST]:
    """Return functions and values of a module or function, by name; all values if a name has several."""
    found: dict[str, ast.AST] = {}
    for node in tree.body if isinstance(tree, ast.Module) else ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node is not tree:
            found.setdefault(node.name, node)
        for target in node.targets if isinstance(node, ast.Assign) else ():
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name):
                    others = [found[name.id]] if name.id in found else []
                    found[name.id] = ast.List([*others, value])  # type: ignore[list-item]
    return found


class _Texts:
    """Texts of an error, including those that its arguments name or that functions return."""

    def __init__(self, modules: Mapping[str, _Module], home: _Module, constants: Mapping[str, str]) -> None:
        self._constants = constants
        self._modules = modules
        self._home = home
        self._seen: set[int] = set()

    def of(self, node: ast.AST, module: _Module, inside: ast.AST) -> Iterator[tuple[str, int, str]]:
        """Yield module, line and text."""
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        yield from ((module.name, line, text) for line, text in literals(node))
        local = _assigned(inside) if inside is not module.tree else {}
        for name in {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}:
            home, meant = module, local.get(name) or module.defined.get(name)
            # Imports of an imported function are not part of the fix.
            if meant is None and name in module.imported and module is self._home:
                home = self._modules.get(module.imported[name], module)
                meant = home.defined.get(name)
            if meant is not None and not _makes_errors(meant, node, self._constants):
                is_function = isinstance(meant, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from self.of(meant, home, meant if is_function else inside)


def _makes_errors(meant: ast.AST, user: ast.AST, constants: Mapping[str, str]) -> bool:
    """Return True if the used object creates an error itself, such as a check that is called."""
    calls = (one for one in ast.walk(meant) if isinstance(one, ast.Call))
    return meant is not user and any(_id_of(call, constants) for call in calls)
