"""Reads the source of a hook module, to describe the plugin without importing it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec

from ace.plugins.hooks import HOOKS, undecorated_hook, unknown_hook

__all__ = ["HookSource", "is_there", "read_hook_source"]


@dataclass(frozen=True, slots=True)
class HookSource:
    """The contents of a hook module, read from its source."""

    kinds: tuple[str, ...]
    """The kinds of what the plugin provides, such as `runners`."""
    api: int | None
    """Its `ACE_API`; None if it is missing or not a number literal."""
    requires: tuple[str, ...]
    """The requirements of its specs that are string literals."""
    command_summary: str | None
    """The summary of its command; None if it does not have one, or if it is not a string literal."""
    problem: str = ""
    """Why the plugin cannot be loaded, as far as the source shows it; empty otherwise."""
    targets: tuple[str, ...] = ()
    """The targets of its specs that are string literals, such as `ace_acme.runner:Acme`."""
    names: tuple[tuple[str, str], ...] = ()
    """The kinds and names of its specs whose name is a string literal, such as `("runners", "acme")`."""


def read_hook_source(module: str) -> HookSource | None:
    """Read a hook module without importing it or its package.

    Args:
        module: The name of the module, with or without an attribute, such as `ace_acme.plugin`.

    Returns:
        Its contents; None if it has no source, such as a compiled module.
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
        # The module may be importable anyway; this only means that nothing is known about it.
        return None
    if source is None:
        return None
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""  # unknown for a null byte
        return _unusable(f"its hook module {name!r} has a syntax error{where}: {error.msg}")
    except (ValueError, RecursionError, MemoryError):
        return _unusable(f"its hook module {name!r} is nested too deeply to be parsed")
    nodes = list(ast.walk(tree))
    hooks = [node.name for node in nodes if isinstance(node, ast.FunctionDef) and _is_hook(node)]
    calls = _calls(nodes)
    return HookSource(
        kinds=tuple(kind for kind in HOOKS if f"ace_{kind}" in hooks),
        api=_api(tree),
        requires=_requirements(tree, calls),
        command_summary=_command_summary(calls),
        problem=_problem(tree, hooks),
        targets=_targets(calls),
        names=tuple((kind, text) for kind, spec in HOOKS.items() for text in _texts(calls[spec], "name")),
    )


def is_there(reference: str) -> bool:
    """Return whether the target of a spec may exist, without importing anything.

    The result is False only if the module is certainly missing, or certainly does not define the name.

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


def _problem(tree: ast.Module, hooks: Iterable[str]) -> str:
    for name in hooks:
        if name.removeprefix("ace_") not in HOOKS:
            return unknown_hook(name)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and node.name.removeprefix("ace_") in HOOKS:
            return undecorated_hook(node.name)
    return ""


def _defined_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that are assigned or imported anywhere in a module; `*` for those of a star import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


def _found(name: str) -> ModuleSpec | None:
    """Find a module as the import system does, but without importing its parent packages."""
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
        find_spec = getattr(finder, "find_spec", None)  # the import system skips finders without it, too
        spec: ModuleSpec | None = None if find_spec is None else find_spec(name, folders)
        if spec is not None:
            return spec
    return None


def _is_hook(function: ast.FunctionDef) -> bool:
    if not function.name.startswith("ace_"):
        return False
    return any(ast.unparse(decorator).partition("(")[0].endswith("hookimpl") for decorator in function.decorator_list)


def _calls(nodes: Iterable[ast.AST]) -> Mapping[str, Sequence[ast.Call]]:
    """Return the calls of specs, by the name of the spec."""
    calls: dict[str, list[ast.Call]] = {spec: [] for spec in HOOKS.values()}
    for node in nodes:
        if isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
            if name in calls:
                calls[name].append(node)
    return calls


def _api(tree: ast.Module) -> int | None:
    for statement, name in _assignments(tree):
        if name.id == "ACE_API":
            value = statement.value
            return value.value if isinstance(value, ast.Constant) and type(value.value) is int else None
    return None


def _assignments(tree: ast.Module) -> Iterator[tuple[ast.Assign | ast.AnnAssign, ast.Name]]:
    """Yield the statements that assign a module-level name."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            yield from ((statement, target) for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement, statement.target


def _requirements(tree: ast.Module, calls: Mapping[str, Sequence[ast.Call]]) -> tuple[str, ...]:
    """Return the literals in `requires=` of all specs, without duplicates, directly or by a module-level name."""
    found: dict[str, None] = {}
    named = {name.id: statement.value for statement, name in _assignments(tree)}
    for spec in HOOKS.values():
        for value in _arguments(calls[spec], "requires"):
            node = named.get(value.id) if isinstance(value, ast.Name) else value
            texts = node.elts if isinstance(node, ast.Tuple) else []
            found |= {text.value: None for text in texts if isinstance(text, ast.Constant) and type(text.value) is str}
    return tuple(found)


def _targets(calls: Mapping[str, Sequence[ast.Call]]) -> tuple[str, ...]:
    """Return the targets of all specs that are string literals, without duplicates."""
    found: dict[str, None] = {}
    for spec in HOOKS.values():
        for argument in ("target", "produces", "accepts", "recognises", "parts"):
            found |= {text: None for text in _texts(calls[spec], argument) if ":" in text}
    return tuple(found)


def _command_summary(calls: Mapping[str, Sequence[ast.Call]]) -> str | None:
    return next(_texts(calls["CommandSpec"], "summary"), None)


def _texts(calls: Iterable[ast.Call], argument: str) -> Iterator[str]:
    """Yield what one argument is given in calls, where that is written as a plain text."""
    for value in _arguments(calls, argument):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def _arguments(calls: Iterable[ast.Call], argument: str) -> Iterator[ast.expr]:
    """Yield the expressions passed as one argument in several calls."""
    for call in calls:
        yield from (keyword.value for keyword in call.keywords if keyword.arg == argument)
