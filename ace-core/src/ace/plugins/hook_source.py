"""Reads from the source of a hook module what can be known without importing it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec

from ace.plugins.hooks import HOOKS

__all__ = ["HookSource", "read_hook_source"]


@dataclass(frozen=True, slots=True)
class HookSource:
    """What the source of a hook module says."""

    kinds: tuple[str, ...]
    """What the plugin gives, such as `runners`."""
    api: int | None
    """Its `ACE_API`; None if it is not there, or is no plain number."""
    requires: tuple[str, ...]
    """The requirements of its specs that are written as plain texts."""
    command_summary: str | None
    """The summary of its command; None if it has none, or it is no plain text."""


def read_hook_source(module: str) -> HookSource | None:
    """Read a hook module without importing it, nor the package that it is in.

    Args:
        module: Its name, with or without an attribute: `ace_acme.plugin`.

    Returns:
        What it says; None if it has no source that can be found and read.
    """
    name = module.partition(":")[0].strip()
    try:
        spec = _found(name)
        source = spec.loader.get_source(name)  # type: ignore[union-attr]  # caught below
        tree = ast.parse(source or "")
    except (AttributeError, ImportError, SyntaxError, ValueError):
        # Whoever loads the plugin will be told; here it only means that nothing is known.
        return None
    if source is None:
        return None
    kinds = {kind for kind in HOOKS if any(_is_hook(node, f"ace_{kind}") for node in ast.walk(tree))}
    return HookSource(
        kinds=tuple(kind for kind in HOOKS if kind in kinds),
        api=_api(tree),
        requires=_requirements(tree),
        command_summary=_command_summary(tree),
    )


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
    """Return the texts in `requires=` of all specs, each once; a name of the module may stand for them."""
    found: dict[str, None] = {}
    named = {name.id: statement.value for statement, name in _assignments(tree)}
    for spec in HOOKS.values():
        for value in _arguments(tree, spec, "requires"):
            given = named.get(value.id) if isinstance(value, ast.Name) else value
            texts = given.elts if isinstance(given, ast.Tuple) else []
            found |= {text.value: None for text in texts if isinstance(text, ast.Constant) and type(text.value) is str}
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
