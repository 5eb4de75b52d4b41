"""Access to what plugins provide, by name. Only the plugin of that name is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ace.plugins.catalogue import catalogue
from ace.plugins.discovery import InstalledPlugin
from ace.plugins.errors import PluginLoadError, UnknownPluginError
from ace.plugins.loading import Plugin, loading_lock
from ace.plugins.specs import (
    CommandSpec,
    ExecuteStepSpec,
    LLMClientSpec,
    ObserverOption,
    ObserverSpec,
    RunnerSpec,
    Spec,
    TraceConverterSpec,
)

if TYPE_CHECKING:
    from ace.pipeline import StepProtocol
    from ace.protocols import ModelClientFactory
    from ace.runners import IntegrationRunner

__all__ = [
    "get_execute_step",
    "get_llm_client",
    "get_runner",
    "get_trace_converter",
    "load_command",
    "observer_options",
    "targets_of",
    "temporary",
]

_KINDS: Final[dict[type[Spec], str]] = {
    ExecuteStepSpec: "an execute step",
    TraceConverterSpec: "a trace converter",
    LLMClientSpec: "an LLM client",
    CommandSpec: "a command",
}


def get_runner(name: str) -> Any:  # the class is the plugin's own; its constructors differ
    """Return the runner class of a plugin, or one composed from its execute step and its trace converter.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: No plugin has this name, or it does not provide a runner.
        PluginError: The plugin cannot be loaded; see `ace.plugins`.
    """
    plugin = catalogue().find(name).load()
    runners = plugin.specs_of(RunnerSpec)
    if runners:
        return _callable(plugin, runners[0])
    steps, converters = plugin.specs_of(ExecuteStepSpec), plugin.specs_of(TraceConverterSpec)
    if not steps or not converters:
        raise _not_provided(plugin, "a runner, or an execute step and a trace converter from which to compose one")
    with loading_lock:  # otherwise two threads could get two classes
        return _composed_runner(plugin.name, _callable(plugin, steps[0]), _callable(plugin, converters[0]))


def get_execute_step(name: str) -> Callable[..., StepProtocol[Any]]:
    """Return the class of the step that runs the plugin's framework.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: No plugin has this name, or it does not provide such a step.
        PluginError: The plugin cannot be loaded; see `ace.plugins`.
    """
    found: Callable[..., StepProtocol[Any]] = _only(name, ExecuteStepSpec)
    return found


def get_trace_converter(name: str) -> Callable[[], StepProtocol[Any]]:
    """Return the class of the step that converts results of the plugin to the standard trace dict.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: No plugin has this name, or it does not provide a converter.
        PluginError: The plugin cannot be loaded; see `ace.plugins`.
    """
    found: Callable[[], StepProtocol[Any]] = _only(name, TraceConverterSpec)
    return found


def get_llm_client(name: str) -> ModelClientFactory:
    """Return the factory of a plugin's LLM clients, usually their class.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: No plugin has this name, or it does not provide an LLM client.
        PluginError: The plugin cannot be loaded; see `ace.plugins`.
    """
    found: ModelClientFactory = _only(name, LLMClientSpec)
    return found


def load_command(name: str) -> Callable[..., Any]:
    """Import the subcommand of a plugin: a typed function or a cyclopts `App`.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        PluginError: The plugin cannot be loaded; the message names plugin, distribution, version and cause.
    """
    found: Callable[..., Any] = _only(name, CommandSpec)
    return found


def observer_options(option: str) -> list[ObserverOption]:
    """Return the options of the observer to whose plugin an option belongs by its name; only that one is imported.

    Args:
        option: The name of the option, with or without hyphens at the beginning.

    Raises:
        PluginError: The plugin cannot be loaded.
    """
    name = option.lstrip("-")
    for plugin in catalogue().usable():
        shown = plugin.name.replace("_", "-")
        if name == shown or name.startswith(f"{shown}-"):
            specs = plugin.load().specs_of(ObserverSpec)
            return [option for spec in specs for option in spec.options]
    return []


def targets_of(kind: type[Spec]) -> list[Callable[..., Any]]:
    """Return what all plugins provide of one kind. A plugin that cannot be loaded is skipped; `ace plugins` shows it.

    Args:
        kind: The class of the specs.
    """
    return [_callable(plugin, spec) for plugin in catalogue().providing(kind) for spec in plugin.load().specs_of(kind)]


def _only(name: str, kind: type[Spec]) -> Any:
    """Return the target of a plugin's spec of one class."""
    plugin = catalogue().find(name).load()
    specs = plugin.specs_of(kind)
    if not specs:
        raise _not_provided(plugin, _KINDS[kind])
    return _callable(plugin, specs[0])


def _callable(plugin: Plugin, spec: Spec) -> Any:
    found = plugin.target(spec)
    if not callable(found):
        raise PluginLoadError(
            f"{plugin.owner}: {spec.target!r} must be a class or a function, got a {type(found).__name__}"
        )
    return found


def _not_provided(plugin: Plugin, what: str) -> UnknownPluginError:
    return UnknownPluginError(f"{plugin.owner} does not provide {what}; it provides: {', '.join(plugin.specs)}")


@cache
def _composed_runner(
    name: str, execute_step: Callable[..., StepProtocol[Any]], to_trace: Callable[[], StepProtocol[Any]]
) -> type[IntegrationRunner]:
    """Return a runner class that is composed of two steps.

    Args:
        name: The name of the plugin.
        execute_step: The class of its execute step; it is called with the arguments of `from_roles` other than roles.
        to_trace: The class of its trace converter.
    """
    from ace.runners import IntegrationRunner

    class ComposedRunner(IntegrationRunner):
        integration = name

    ComposedRunner.execute_step = staticmethod(execute_step)
    ComposedRunner.to_trace = staticmethod(to_trace)
    ComposedRunner.__name__ = ComposedRunner.__qualname__ = f"{name.title().replace('_', '')}Runner"
    ComposedRunner.__doc__ = f"Runs tasks with the plugin {name!r} and learns from them."
    return ComposedRunner


@contextmanager
def temporary(plugin: object, *, name: str) -> Iterator[None]:
    """Make a plugin available in this process during a `with` block. It hides an installed one of the same name.

    Args:
        plugin: A hook module, or another object with `ACE_API` and hooks.
        name: The name of the plugin, as in an entry point.

    Raises:
        PluginError: The plugin is invalid.

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
    there = Plugin(InstalledPlugin(name=name, module=module, distribution=module, version=""), plugin).load()
    for hidden in catalogue().plugins():
        if hidden.name == name:
            forget(hidden)
    try:
        with catalogue().including(there):
            forget(there)
            yield
    finally:
        forget(there)
