"""Reads from the source of a hook module what can be known without importing it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec

from ace.plugins.hooks import HOOKS, undecorated_hook, unknown_hook

__all__ = ["HookSource", "is_there", "read_hook_source"]


@dataclass(frozen=True, slots=True)
class HookSource:
    """What the source of a hook module says."""

    kinds: tuple[str, ...]
    """What the plugin gives, such as `runners`."""
    api: int | None
    """Its `ACE_API`; None if it is missing or not a plain number."""
    requires: tuple[str, ...]
    """The requirements of its specs that are written as plain texts."""
    command_summary: str | None
    """The summary of its command; None if it has none, or it is not a plain text."""
    problem: str = ""
    """Why the plugin cannot be loaded, as far as the source tells; empty if it tells of nothing."""
    targets: tuple[str, ...] = ()
    """What its specs name, as far as it is written as plain texts: `ace_acme.runner:Acme`."""


def read_hook_source(module: str) -> HookSource | None:
    """Read a hook module without importing it, nor the package that it is in.

    Args:
        module: Its name, with or without an attribute: `ace_acme.plugin`.

    Returns:
        What it says; None if it has no source, as a compiled module.
    """
    name = module.partition(":")[0].strip()
    try:
        spec = _found(name)
        if spec is None:
            return _unusable(f"its hook module {name!r} does not exist")
        source = spec.loader.get_source(name)  # type: ignore[union-attr]  # caught below
    except SyntaxError as error:  # the source is not in the encoding that it declares
        return _unusable(f"its hook module {name!r} cannot be read: {error.msg}")
    except (AttributeError, ImportError, ValueError):
        # It may be importable all the same; here it only means that nothing is known.
        return None
    if source is None:
        return None
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""  # of a null byte, no line is known
        return _unusable(f"its hook module {name!r} has a syntax error{where}: {error.msg}")
    except (ValueError, RecursionError, MemoryError):
        return _unusable(f"its hook module {name!r} is nested too deeply to be parsed")
    kinds = {kind for kind in HOOKS if any(_is_hook(node, f"ace_{kind}") for node in ast.walk(tree))}
    return HookSource(
        kinds=tuple(kind for kind in HOOKS if kind in kinds),
        api=_api(tree),
        requires=_requirements(tree),
        command_summary=_command_summary(tree),
        problem=_problem(tree),
        targets=_targets(tree),
    )


def is_there(reference: str) -> bool:
    """Tell whether a spec's reference can name something, without importing anything.

    Only a module that is surely missing, or that surely does not define the name, gives False.

    Args:
        reference: `package.module:attribute`.

    Example:
        >>> is_there("ace.plugins.specs:RunnerSpec"), is_there("ace.plugins.specs:RuunerSpec")
        (True, False)
    """
    name, _, attributes = reference.partition(":")
    try:
        spec = _found(name)
        if spec is None:
            return False
        source = spec.loader.get_source(name)  # type: ignore[union-attr]  # caught below
        if source is None:
            return True
        tree = ast.parse(source)
    except (AttributeError, ImportError, SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    defined = set(_defined_names(tree))
    return "*" in defined or "__getattr__" in defined or attributes.partition(".")[0] in defined


def _unusable(problem: str) -> HookSource:
    return HookSource(kinds=(), api=None, requires=(), command_summary=None, problem=problem)


def _problem(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("ace_"):
            continue
        if _is_hook(node, node.name) and node.name.removeprefix("ace_") not in HOOKS:
            return unknown_hook(node.name)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and node.name.removeprefix("ace_") in HOOKS:
            return undecorated_hook(node.name)
    return ""


def _defined_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module may define, `*` for those of a star import, wherever in the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


def _found(name: str) -> ModuleSpec | None:
    """Find a module as the import system would, but import no package on the way."""
    folders = None
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        spec = _asked_of_finders(".".join(parts[:depth]), folders)
        if spec is None:
            return None
        folders = spec.submodule_search_locations
    return spec


def _asked_of_finders(name: str, folders: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)  # the import system passes over finders without it, too
        spec: ModuleSpec | None = None if find_spec is None else find_spec(name, folders)
        if spec is not None:
            return spec
    return None


def _is_hook(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        return False
    return any(ast.unparse(decorator).partition("(")[0].endswith("hookimpl") for decorator in node.decorator_list)


def _api(tree: ast.Module) -> int | None:
    for statement, name in _assignments(tree):
        if name.id == "ACE_API":
            value = statement.value
            return value.value if isinstance(value, ast.Constant) and type(value.value) is int else None
    return None


def _assignments(tree: ast.Module) -> Iterator[tuple[ast.Assign | ast.AnnAssign, ast.Name]]:
    """Yield the statements that give a name of the module a value."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            yield from ((statement, target) for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement, statement.target


def _requirements(tree: ast.Module) -> tuple[str, ...]:
    """Return the texts in `requires=` of all specs, each once; they may be given by a name of the module."""
    found: dict[str, None] = {}
    named = {name.id: statement.value for statement, name in _assignments(tree)}
    for spec in HOOKS.values():
        for value in _arguments(tree, spec, "requires"):
            given = named.get(value.id) if isinstance(value, ast.Name) else value
            texts = given.elts if isinstance(given, ast.Tuple) else []
            found |= {text.value: None for text in texts if isinstance(text, ast.Constant) and type(text.value) is str}
    return tuple(found)


def _targets(tree: ast.Module) -> tuple[str, ...]:
    """Return the references in all specs that are written as plain texts, each once."""
    found: dict[str, None] = {}
    for spec in HOOKS.values():
        for argument in ("target", "produces", "accepts", "recognises", "parts"):
            for value in _arguments(tree, spec, argument):
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and ":" in value.value:
                    found[value.value] = None
    return tuple(found)


def _command_summary(tree: ast.Module) -> str | None:
    for value in _arguments(tree, "CommandSpec", "summary"):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return None


def _arguments(tree: ast.Module, function: str, argument: str) -> Iterator[ast.expr]:
    """Yield what one argument is given in all calls of a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == function:
            yield from (keyword.value for keyword in node.keywords if keyword.arg == argument)
