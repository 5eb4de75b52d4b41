"""Checks plugins: loads them, imports all that they name, and checks what can be checked without calling it."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ace.plugins.catalogue import PluginInfo, catalogue, described
from ace.plugins.errors import PluginError, PluginLoadError
from ace.plugins.loading import Plugin
from ace.plugins.specs import (
    CommandSpec,
    EmbedderSpec,
    ExecuteStepSpec,
    ExtraStepsSpec,
    LLMClientSpec,
    LogReaderSpec,
    ObserverSpec,
    RunnerSpec,
    Spec,
    StoreSpec,
    TraceConverterSpec,
)

__all__ = ["CheckedPlugin", "PluginProblem", "check_plugins", "foreign_providers_of_ace", "resolution_problems"]


@dataclass(frozen=True, slots=True)
class PluginProblem:
    """A problem of a plugin."""

    text: str
    """The names of the plugin and its distribution, the problem, and what to do about it."""
    traceback: str = ""
    """The traceback of the plugin's error, without the frames of the import system; empty if it did not raise."""


@dataclass(frozen=True, slots=True)
class CheckedPlugin:
    """A plugin and its problems."""

    info: PluginInfo
    problems: tuple[PluginProblem, ...]


def check_plugins(name: str | None = None) -> list[CheckedPlugin]:
    """Load plugins, import everything that their specs name, and check what can be checked without calling it.

    Args:
        name: Only check plugins of this name.

    Returns:
        Each plugin with its problems. A disabled plugin is not imported.

    Raises:
        UnknownPluginError: No plugin has this name.
    """
    return [_checked(plugin) for plugin in catalogue().named(name)]


def foreign_providers_of_ace() -> list[str]:
    """Return the distributions other than ace-core that also contain an import package `ace`."""
    from importlib_metadata import packages_distributions

    return sorted(set(packages_distributions().get("ace", ())) - {"ace-core"})


def _checked(plugin: Plugin) -> CheckedPlugin:
    errors = list(_errors(plugin)) if plugin.installed.is_enabled else []
    problems = (PluginProblem(str(error), _where(error.__cause__)) for error in errors)
    return CheckedPlugin(described(plugin, errors[0] if errors else None), tuple(dict.fromkeys(problems)))


def _errors(plugin: Plugin) -> Iterator[PluginError]:
    try:
        plugin.load()
    except PluginError as error:
        yield error
        return
    for spec in plugin.specs_of(Spec):
        errors = list(resolution_problems(plugin, spec))
        yield from errors
        if not errors:
            check = _CHECKS[type(spec)]
            found = check(plugin, spec, plugin.target(spec))
            yield from (PluginLoadError(f"{plugin.owner}: {spec.target!r} {problem}") for problem in found)


def resolution_problems(plugin: Plugin, spec: Spec) -> Iterator[PluginError]:
    """Import everything that a spec of a loaded plugin names, and yield the errors."""
    for reference in spec.references:
        try:
            plugin.resolve(reference, spec.requires)
        except PluginError as error:
            yield error


def _where(error: BaseException | None) -> str:
    """Return the traceback of a plugin's error, beginning with the plugin's own frames."""
    if error is None:
        return ""
    report = traceback.TracebackException.from_exception(error)
    own = [frame for frame in report.stack if not frame.filename.startswith("<frozen") and not _is_ours(frame.filename)]
    report.stack = traceback.StackSummary.from_list(own)
    return "".join(report.format(chain=False)).rstrip()


def _is_ours(filename: str) -> bool:
    folder = str(Path(__file__).parent)
    return filename.startswith(folder) or f"{os.sep}importlib{os.sep}" in filename


def _step_problems(plugin: Plugin, spec: ExecuteStepSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    if not isinstance(target, type):  # a function that creates the step; the type of its result is not known
        return
    is_async = inspect.iscoroutinefunction(target.__call__)
    if is_async != spec.is_async:
        found = "async def" if is_async else "def"
        yield f"has a __call__ defined with {found!r}, but its spec has is_async={spec.is_async}"
    yield from _unknown_fields(target, frozenset())


def _converter_problems(plugin: Plugin, spec: TraceConverterSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    provided = {
        name
        for step in plugin.specs_of(ExecuteStepSpec)
        for name in getattr(plugin.target(step), "provides", None) or ()
    }
    yield from _unknown_fields(target, frozenset(provided))
    if isinstance(target, type):
        yield from _does_not_take(target, "no arguments")
    if spec.recognises is not None:
        recogniser = plugin.resolve(spec.recognises, spec.requires)
        for problem in [*_not_callable(recogniser), *_does_not_take(recogniser, "a record", "record")]:
            yield f"has a recogniser {spec.recognises!r} that {problem}"


def _reader_problems(plugin: Plugin, spec: LogReaderSpec, target: Any) -> Iterator[str]:
    """Yield what makes it no reader of logs; `ace.testing.LogReaderConformance` checks what it reads."""
    yield from [*_not_callable(target), *_does_not_take(target, "no arguments")]
    if isinstance(target, type):
        yield from _lacks(target, ("recognises", "runs"))


def _unknown_fields(step: object, provided: frozenset[str]) -> Iterator[str]:
    from dataclasses import fields

    from ace.context import ACEStepContext

    known = {field.name for field in fields(ACEStepContext)} | provided
    required = getattr(step, "requires", None)
    if isinstance(required, set | frozenset | list | tuple):
        for name in sorted(str(name) for name in required if name not in known):
            yield f"requires {name!r}, which is not a field of the context and is not provided by an earlier step"


def _runner_problems(plugin: Plugin, spec: RunnerSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    if isinstance(target, type):
        yield from _lacks(target, ("run", "from_roles"))


def _client_problems(plugin: Plugin, spec: LLMClientSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    yield from _does_not_take(target, "the name of a model and settings", "model", max_tokens=1)
    if isinstance(target, type) and not any(hasattr(target, name) for name in ("complete", "complete_structured")):
        yield "has neither 'complete' nor 'complete_structured'"


def _command_problems(plugin: Plugin, spec: CommandSpec, target: Any) -> Iterator[str]:
    from cyclopts import App

    if isinstance(target, App):
        return
    yield from _not_callable(target)
    if not callable(target):
        return
    app = App(name=spec.name)
    try:
        app.default(target)
        app.assemble_argument_collection()
    except Exception as error:  # cyclopts has no common class for the errors of unsupported parameters
        yield f"is not a command that can be called: {type(error).__name__}: {' '.join(str(error).split())}"


def _observer_problems(plugin: Plugin, spec: ObserverSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    yield from _does_not_take(target, "an event", "event")
    if isinstance(target, type):
        yield "is a class; an observer is called with each event, so name a function or an instance"
    elif inspect.iscoroutinefunction(target):
        yield "is defined with 'async def', but an observer is called and not awaited"


def _store_problems(plugin: Plugin, spec: StoreSpec, target: Any) -> Iterator[str]:
    from ace.skillbook import SkillbookStore

    yield from _not_callable(target)
    yield from _does_not_take(target, "a location", "acme://team")
    if isinstance(target, type):
        public = [name for name in vars(SkillbookStore) if not name.startswith("_")]
        yield from _lacks(target, public)


def _embedder_problems(plugin: Plugin, spec: EmbedderSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    yield from _does_not_take(target, "the name of a model, or None", None)
    if isinstance(target, type):
        yield from _lacks(target, ("embed",))


def _extra_steps_problems(plugin: Plugin, spec: ExtraStepsSpec, target: Any) -> Iterator[str]:
    yield from _not_callable(target)
    yield from _does_not_take(target, "no arguments")
    settings: dict[str, object] = dict.fromkeys(spec.options)
    yield from _does_not_take(target, "its options", **settings)


def _not_callable(target: object) -> Iterator[str]:
    if not callable(target):
        yield f"must be a class or a function, got a {type(target).__name__}"


def _lacks(target: type, names: Any) -> Iterator[str]:
    for name in names:
        if not callable(getattr(target, name, None)):
            yield f"has no method {name!r}"


def _does_not_take(target: Any, what: str, *arguments: object, **settings: object) -> Iterator[str]:
    """Yield a problem if a callable cannot be called with these arguments; accept it if its signature is unknown."""
    if not callable(target):
        return
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments, **settings)
    except TypeError as error:
        yield f"cannot be called with {what}: {error}"


_CHECKS: Final[Mapping[type[Spec], Callable[[Plugin, Any, Any], Iterator[str]]]] = {
    ExecuteStepSpec: _step_problems,
    TraceConverterSpec: _converter_problems,
    LogReaderSpec: _reader_problems,
    RunnerSpec: _runner_problems,
    LLMClientSpec: _client_problems,
    CommandSpec: _command_problems,
    ObserverSpec: _observer_problems,
    StoreSpec: _store_problems,
    EmbedderSpec: _embedder_problems,
    ExtraStepsSpec: _extra_steps_problems,
}
