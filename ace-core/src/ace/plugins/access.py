"""Access to what plugins provide, by name. Only the plugin of that name is imported."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from ace.plugins.catalogue import CataloguedPlugin, catalogue
from ace.plugins.discovery import InstalledPlugin
from ace.plugins.errors import PluginError, PluginLoadError, UnknownPluginError
from ace.plugins.loading import PluginCode, load_hooks
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
    from ace.plugins.loading import LoadedPlugin
    from ace.protocols import ModelClientFactory
    from ace.runners import IntegrationRunner

__all__ = [
    "all_observer_options",
    "get_execute_step",
    "get_llm_client",
    "get_runner",
    "get_trace_converter",
    "load_command",
    "observer_options",
    "only",
    "temporary",
]

SomeSpec = TypeVar("SomeSpec", bound=Spec)

_KINDS: dict[type[Spec], str] = {
    ExecuteStepSpec: "an execute step",
    TraceConverterSpec: "a trace converter",
    LLMClientSpec: "an LLM client",
    CommandSpec: "a command",
}

_lock = threading.Lock()


def get_runner(name: str) -> Any:  # the class is the plugin's own; its constructors differ
    """Return the runner class of a plugin, or one composed from its execute step and its trace converter.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: No plugin has this name, or it does not provide a runner.
        PluginError: The plugin cannot be loaded; see `ace.plugins`.
    """
    plugin = catalogue().find(name).load()
    own = plugin.specs_of(RunnerSpec)
    if own:
        return _called_later(plugin, own[0])
    steps, converters = plugin.specs_of(ExecuteStepSpec), plugin.specs_of(TraceConverterSpec)
    if not steps or not converters:
        raise _not_given(plugin, "a runner, or an execute step and a trace converter from which to compose one")
    return _composed_runner(plugin, _called_later(plugin, steps[0]), _called_later(plugin, converters[0]))


def get_execute_step(name: str) -> Callable[..., StepProtocol[Any]]:
    """Return the class of the step that runs the plugin's framework.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: No plugin has this name, or it does not provide such a step.
        PluginError: The plugin cannot be loaded; see `ace.plugins`.
    """
    found: Callable[..., StepProtocol[Any]] = only(name, ExecuteStepSpec)
    return found


def get_trace_converter(name: str) -> Callable[[], StepProtocol[Any]]:
    """Return the class of the step that converts results of the plugin to the standard trace dict.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: No plugin has this name, or it does not provide a converter.
        PluginError: The plugin cannot be loaded; see `ace.plugins`.
    """
    found: Callable[[], StepProtocol[Any]] = only(name, TraceConverterSpec)
    return found


def get_llm_client(name: str) -> ModelClientFactory:
    """Return the factory of a plugin's LLM clients, usually their class.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        UnknownPluginError: No plugin has this name, or it does not provide an LLM client.
        PluginError: The plugin cannot be loaded; see `ace.plugins`.
    """
    found: ModelClientFactory = only(name, LLMClientSpec)
    return found


def only(name: str, kind: type[SomeSpec]) -> Any:
    """Return the target of a plugin's spec of one class.

    Args:
        name: The name of the plugin, with hyphens or underscores.
        kind: The class of the spec.

    Raises:
        PluginError: No plugin has this name, it has no such spec, or it cannot be loaded.
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
            f"{plugin.targets.owner}: {spec.target!r} must be a class or a function, got a {type(found).__name__}"
        )
    return found


def _not_given(plugin: LoadedPlugin, what: str) -> UnknownPluginError:
    given = ", ".join(plugin.specs)
    return UnknownPluginError(f"{plugin.targets.owner} does not provide {what}; it provides: {given}")


def _composed_runner(
    plugin: LoadedPlugin, execute_step: Callable[..., StepProtocol[Any]], to_trace: Callable[[], StepProtocol[Any]]
) -> type[IntegrationRunner]:
    """Return the composed runner class of a plugin, which is created once.

    Args:
        plugin: The plugin.
        execute_step: The class of its execute step; it is called with the arguments of `from_roles` other than roles.
        to_trace: The class of its trace converter.
    """
    with _lock:  # otherwise two threads could get two classes
        return _composed(plugin.name, plugin.targets.owner, execute_step, to_trace)


@cache
def _composed(
    name: str, owner: str, execute_step: Callable[..., StepProtocol[Any]], to_trace: Callable[[], StepProtocol[Any]]
) -> type[IntegrationRunner]:
    from ace.runners import IntegrationRunner

    class ComposedRunner(IntegrationRunner):
        integration = name

    code = PluginCode(f"creating a step of {owner}")
    ComposedRunner.execute_step = staticmethod(_watched(execute_step, code))
    ComposedRunner.to_trace = staticmethod(_watched(to_trace, code))
    ComposedRunner.__name__ = ComposedRunner.__qualname__ = f"{name.title().replace('_', '')}Runner"
    ComposedRunner.__doc__ = f"Runs tasks with the plugin {name!r} and learns from them."
    return ComposedRunner


def _watched(create: Callable[..., StepProtocol[Any]], code: PluginCode) -> Callable[..., StepProtocol[Any]]:
    """Return a function with the same signature; a warning names the plugin if it takes long."""

    @wraps(create, updated=())  # the class of a step has attributes of its own
    def created(*args: object, **kwargs: object) -> StepProtocol[Any]:
        with code.running():
            return create(*args, **kwargs)

    return created


def observer_options(option: str) -> list[ObserverOption]:
    """Return the options of the observer to whose plugin an option belongs by its name; only that one is imported.

    Args:
        option: The name of the option, with or without hyphens at the beginning.

    Raises:
        PluginError: The plugin cannot be loaded.
    """
    given = option.lstrip("-")
    for plugin in catalogue().giving("observers"):
        shown = plugin.installed.name.replace("_", "-")
        if given == shown or given.startswith(f"{shown}-"):
            return [declared for spec in plugin.load().specs_of(ObserverSpec) for declared in spec.options]
    return []


def all_observer_options() -> list[ObserverOption]:
    """Return the options of the observers of all plugins that can be loaded. Only their hook modules are imported."""
    found: list[ObserverOption] = []
    for plugin in catalogue().giving("observers"):
        try:
            loaded = plugin.load()
        except PluginError:  # `ace --help` and `ace plugins` list it
            continue
        found += (option for spec in loaded.specs_of(ObserverSpec) for option in spec.options)
    return found


def load_command(name: str) -> Callable[..., Any]:
    """Import the subcommand of a plugin: a typed function or a cyclopts `App`.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        PluginError: The plugin cannot be loaded; the message names plugin, distribution, version and cause.
    """
    found: Callable[..., Any] = only(name, CommandSpec)
    return found


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
