"""What plugins give, by name. One plugin is imported, and nothing of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from ace.plugins.catalogue import CataloguedPlugin, catalogue
from ace.plugins.discovery import InstalledPlugin
from ace.plugins.errors import PluginLoadError, UnknownPluginError
from ace.plugins.loading import load_hooks
from ace.plugins.specs import CommandSpec, ExecuteStepSpec, LLMClientSpec, RunnerSpec, Spec, TraceConverterSpec

if TYPE_CHECKING:
    from ace.pipeline import StepProtocol
    from ace.plugins.loading import LoadedPlugin
    from ace.protocols import ModelClientFactory
    from ace.runners import IntegrationRunner

__all__ = [
    "get_execute_step",
    "get_llm_client",
    "get_runner",
    "get_trace_converter",
    "load_command",
    "only",
    "plugin_commands",
    "temporary",
]

SomeSpec = TypeVar("SomeSpec", bound=Spec)

_KINDS: dict[type[Spec], str] = {
    ExecuteStepSpec: "execute step",
    TraceConverterSpec: "trace converter",
    LLMClientSpec: "LLM client",
    CommandSpec: "command",
}

_lock = threading.Lock()


def get_runner(name: str) -> Any:  # the class is the plugin's own; its constructors differ
    """Return the runner class of a plugin, or one composed of its execute step and its trace converter.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: There is no such plugin, or it gives no runner.
        PluginError: It cannot be loaded; see `ace.plugins`.
    """
    plugin = catalogue().find(name).load()
    own = plugin.specs_of(RunnerSpec)
    if own:
        return _called_later(plugin, own[0])
    steps, converters = plugin.specs_of(ExecuteStepSpec), plugin.specs_of(TraceConverterSpec)
    if not steps or not converters:
        raise _not_given(plugin, "runner, and no execute step with a trace converter, to compose one of them")
    return _composed_runner(plugin.name, _called_later(plugin, steps[0]), _called_later(plugin, converters[0]))


def get_execute_step(name: str) -> Callable[..., StepProtocol[Any]]:
    """Return the class of the step with which a plugin runs its framework.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: There is no such plugin, or it gives no such step.
        PluginError: It cannot be loaded; see `ace.plugins`.
    """
    found: Callable[..., StepProtocol[Any]] = only(name, ExecuteStepSpec)
    return found


def get_trace_converter(name: str) -> Callable[[], StepProtocol[Any]]:
    """Return the class of the step with which a plugin turns its results into the standard trace dict.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: There is no such plugin, or it gives no converter.
        PluginError: It cannot be loaded; see `ace.plugins`.
    """
    found: Callable[[], StepProtocol[Any]] = only(name, TraceConverterSpec)
    return found


def get_llm_client(name: str) -> ModelClientFactory:
    """Return what makes the LLM clients of a plugin; usually their class.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: There is no such plugin, or it gives no LLM client.
        PluginError: It cannot be loaded; see `ace.plugins`.
    """
    found: ModelClientFactory = only(name, LLMClientSpec)
    return found


def only(name: str, kind: type[SomeSpec]) -> Any:
    """Return what the one spec of a class of a plugin names.

    Args:
        name: The name of the plugin, with hyphens or underscores.
        kind: The class of the spec.

    Raises:
        PluginError: There is no such plugin, it has no such spec, or it cannot be loaded.
    """
    plugin = catalogue().find(name).load()
    specs = plugin.specs_of(kind)
    if not specs:
        raise _not_given(plugin, _KINDS[kind])
    return _called_later(plugin, specs[0])


def _called_later(plugin: LoadedPlugin, spec: Spec) -> Any:
    found = plugin.resolve(spec)
    if not callable(found):
        raise PluginLoadError(
            f"{plugin.targets.owner}: {spec.target!r} must be a class or a function, and is a {type(found).__name__}"
        )
    return found


def _not_given(plugin: LoadedPlugin, what: str) -> UnknownPluginError:
    given = ", ".join(plugin.specs)
    return UnknownPluginError(f"{plugin.targets.owner} gives no {what}; it gives: {given}")


def _composed_runner(
    name: str, execute_step: Callable[..., StepProtocol[Any]], to_trace: Callable[[], StepProtocol[Any]]
) -> type[IntegrationRunner]:
    """Return the runner class of a plugin; the same one each time.

    Args:
        name: The name of the plugin.
        execute_step: The class of its execute step; it gets what `from_roles` is given beside the roles.
        to_trace: The class of its trace converter.
    """
    with _lock:  # else two threads could be given two classes
        return _composed(name, execute_step, to_trace)


@cache
def _composed(
    name: str, execute_step: Callable[..., StepProtocol[Any]], to_trace: Callable[[], StepProtocol[Any]]
) -> type[IntegrationRunner]:
    from ace.runners import IntegrationRunner

    class ComposedRunner(IntegrationRunner):
        integration = name

    ComposedRunner.execute_step = staticmethod(execute_step)
    ComposedRunner.to_trace = staticmethod(to_trace)
    ComposedRunner.__name__ = ComposedRunner.__qualname__ = f"{name.title().replace('_', '')}Runner"
    ComposedRunner.__doc__ = f"Runs tasks with the plugin {name!r} and learns from them."
    return ComposedRunner


@dataclass(frozen=True, slots=True)
class _PluginCommand:
    """A subcommand, as the help shows it."""

    name: str
    """The name of the plugin."""
    summary: str
    """One line."""


def plugin_commands() -> list[_PluginCommand]:
    """Return the subcommands of all plugins, by name. No plugin is imported; their sources are read."""
    return [
        _PluginCommand(plugin.installed.name, plugin.source.command_summary or plugin.installed.summary)
        for plugin in catalogue().giving("commands")
        if plugin.source is not None
    ]


def load_command(name: str) -> Callable[..., Any]:
    """Import the subcommand of a plugin: a typed function or a cyclopts `App`.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        PluginError: It cannot be loaded; the text names plugin, distribution, version and cause.
    """
    found: Callable[..., Any] = only(name, CommandSpec)
    return found


@contextmanager
def temporary(plugin: object, *, name: str) -> Iterator[None]:
    """Have a plugin in this process within a `with` block. It hides an installed one of the same name.

    Args:
        plugin: A hook module, or another object with `ACE_API` and hooks.
        name: Its name, as its entry point would have it.

    Raises:
        PluginError: It is not right; the text says what is wrong.

    Example:
        >>> from ace.plugins import RunnerSpec, get_runner, hookimpl
        >>> class Hooks:
        ...     ACE_API = 1
        ...
        ...     @hookimpl
        ...     def ace_runners(self):
        ...         yield RunnerSpec(name="acme", target="ace.runners:TraceAnalyser")
        >>> with temporary(Hooks(), name="acme"):
        ...     get_runner("acme").__name__
        'TraceAnalyser'
    """
    from ace.plugins.registering import forget

    module = str(getattr(plugin, "__name__", type(plugin).__qualname__))
    installed = InstalledPlugin(name=name, module=module, distribution="temporary", version="")
    loaded = load_hooks(plugin, name, f"plugin {name!r} of {module}")
    there = CataloguedPlugin(installed, loaded)
    for hidden in catalogue().plugins():
        if hidden.installed.name == name:
            forget(hidden)
    try:
        with catalogue().including(there):
            forget(there)
            yield
    finally:
        forget(there)
