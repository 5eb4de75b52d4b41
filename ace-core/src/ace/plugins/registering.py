"""Registers what plugins and ace itself provide in the registries of the lower layers, when these are searched."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final

from ace._internal.registry import filled
from ace.plugins.catalogue import catalogue
from ace.plugins.discovery import InstalledPlugin
from ace.plugins.errors import PluginConflictError, PluginError
from ace.plugins.loading import Plugin, loading_lock
from ace.plugins.specs import (
    EmbedderSpec,
    ExtraStepsSpec,
    LLMClientSpec,
    LogReaderSpec,
    ObserverSpec,
    Spec,
    StoreSpec,
    TraceConverterSpec,
)

if TYPE_CHECKING:
    from ace.protocols.trace_converters import TraceConverter

__all__ = ["fill", "forget"]

_logger = getLogger(__name__)
_is_filling = False
_done: dict[Plugin, dict[str, list[Callable[[], None]]]] = {}
"""For each plugin, the kinds that have been registered or have failed, with the functions that remove them again."""
_warned: set[tuple[Plugin, str]] = set()

"""The number of bytes of a file that are passed to a recogniser."""

_BUILT_IN: Final = Plugin(InstalledPlugin(name="ace", module=__name__, distribution="ace-core", version=""))
"""What ace itself provides: stores, model clients, embedders and trace converters."""
_BUILT_IN.specs = {
    "stores": (
        StoreSpec(
            name="sqlite",
            target="ace.skillbook.sqlite_store:SqliteStore",
            suffixes=(".db", ".sqlite", ".sqlite3"),
            summary="Skillbooks with history in one file on a local disk",
        ),
    ),
    "llm_clients": (
        LLMClientSpec(
            name="local",  # followed by a name of the catalogue or the path of a GGUF file
            target="ace.providers.local.client:client_of_model_string",
            summary="Models on this machine, with ace-core[local]",
        ),
    ),
    "embedders": (
        EmbedderSpec(
            name="litellm",
            target="ace.providers.embedders:LiteLLMEmbedder",
            summary="Vectors of any embedding model that LiteLLM supports",
        ),
        EmbedderSpec(
            name="local",
            target="ace.providers.embedders:WordLlamaEmbedder",
            summary="Word vectors on this machine",
        ),
    ),
    "trace_converters": (
        TraceConverterSpec(
            name="execution_trace",
            target="ace.loop:ExecutionToTrace",
            accepts="ace.loop.execution:ExecutionTrace",
            summary="Read an attempt at a task",
        ),
    ),
    "log_readers": (
        LogReaderSpec(
            name="execution_trace",
            target="ace.loop:ExecutionLogs",
            summary="Read the log of attempts at tasks that `ace capture` writes",
        ),
    ),
}


def fill(kind: str, *, name: str | None = None, built_in: bool = False) -> None:
    """Register what plugins provide of one kind. `registry.fill` calls it unless that has been done already.

    Args:
        kind: The kind, such as `trace_converters`.
        name: Only register the plugin of this name, if it exists.
        built_in: Only register what is part of ace.

    Raises:
        PluginError: The plugin of this name cannot be loaded. (Without a name, such plugins are skipped with a warning,
            except with `ACE_PLUGINS_STRICT=1`.)
    """
    global _is_filling
    with loading_lock:
        if _is_filling:  # a plugin that is being loaded searches a registry
            return
        _is_filling = True
        try:
            _register(_BUILT_IN, kind)
            is_complete = built_in or _register_installed(kind, name)
        finally:
            _is_filling = False
        if is_complete:
            filled.add((kind, name, built_in))


def forget(plugin: Plugin) -> None:
    """Remove what a plugin provided from the registries, and search the plugins again on their next use."""
    with loading_lock:
        for undo in (undo for kind in _done.pop(plugin, {}).values() for undo in kind):
            undo()
        _warned.difference_update({pair for pair in _warned if pair[0] is plugin})
        filled.clear()


def _register_installed(kind: str, name: str | None) -> bool:
    """Register what installed plugins provide; return whether none was skipped because it is being loaded."""
    plugins = catalogue()
    if name in {plugin.name for plugin in plugins.plugins() if plugin.installed.is_enabled}:
        plugins.find(str(name))  # raises if the name is in conflict
    is_strict = os.environ.get("ACE_PLUGINS_STRICT", "").strip().lower() in ("1", "true", "yes", "on")
    is_complete = True
    for plugin in plugins.plugins():
        if not plugin.installed.is_enabled or plugin.installed.problem is not None or name not in (None, plugin.name):
            continue
        if plugin.is_loading:
            is_complete = False
            continue
        try:
            _register(plugin, kind)
        except PluginError as error:
            if name is not None or is_strict:
                raise
            _done.setdefault(plugin, {})[kind] = []  # it is not tried again
            if (plugin, str(error)) not in _warned:  # this is called for each kind
                _warned.add((plugin, str(error)))
                _logger.warning("%s", error)
    return is_complete


def _register(plugin: Plugin, kind: str) -> None:
    """Add the specs of one kind to their registry, unless that has been done."""
    done = _done.setdefault(plugin, {})
    if kind in done:
        return
    specs = plugin.load().specs.get(kind, ())
    try:
        done[kind] = [_REGISTRARS[type(spec)](plugin, spec) for spec in specs]
    except ValueError as error:  # the name is taken
        raise PluginConflictError(f"{plugin.owner}: {error}") from error


def _register_converter(plugin: Plugin, spec: TraceConverterSpec) -> Callable[[], None]:
    from ace.protocols.trace_converters import register_trace_converter, unregister_trace_converter

    register_trace_converter(_trace_converter(plugin, spec))
    return lambda: unregister_trace_converter(spec.name)


def _register_log_reader(plugin: Plugin, spec: LogReaderSpec) -> Callable[[], None]:
    from ace.logs.reading import register_log_reader, unregister_log_reader

    register_log_reader(spec.name, _called_later(plugin, spec))
    return lambda: unregister_log_reader(spec.name)


def _register_client(plugin: Plugin, spec: LLMClientSpec) -> Callable[[], None]:
    from ace.protocols.llm import register_model_prefix, unregister_model_prefix

    register_model_prefix(spec.name, _called_later(plugin, spec))
    return lambda: unregister_model_prefix(spec.name)


def _register_store(plugin: Plugin, spec: StoreSpec) -> Callable[[], None]:
    from ace.skillbook.stores import StoreKind, register_store, unregister_store

    open_store = _called_later(plugin, spec)
    register_store(StoreKind(name=spec.name, open=open_store, schemes=spec.schemes, suffixes=spec.suffixes))
    return lambda: unregister_store(spec.name)


def _register_embedder(plugin: Plugin, spec: EmbedderSpec) -> Callable[[], None]:
    from ace.protocols.deduplication import register_embedder, unregister_embedder

    register_embedder(spec.name, _called_later(plugin, spec))
    return lambda: unregister_embedder(spec.name)


def _register_observer(plugin: Plugin, spec: ObserverSpec) -> Callable[[], None]:
    from ace.protocols.observers import register_observer, unregister_observer

    if not spec.is_enabled(os.environ):
        return lambda: None
    register_observer(spec.name, _called_later(plugin, spec))
    return lambda: unregister_observer(spec.name)


def _register_extra_steps(plugin: Plugin, spec: ExtraStepsSpec) -> Callable[[], None]:
    from ace.runners.extra_steps import ExtraSteps, register_extra_steps, unregister_extra_steps

    register_extra_steps(spec.name, ExtraSteps(_called_later(plugin, spec), spec.options))
    return lambda: unregister_extra_steps(spec.name)


_REGISTRARS: dict[type[Spec], Callable[[Plugin, Any], Callable[[], None]]] = {
    TraceConverterSpec: _register_converter,
    LogReaderSpec: _register_log_reader,
    LLMClientSpec: _register_client,
    StoreSpec: _register_store,
    EmbedderSpec: _register_embedder,
    ObserverSpec: _register_observer,
    ExtraStepsSpec: _register_extra_steps,
}


def _called_later(plugin: Plugin, spec: Spec) -> Callable[..., Any]:
    """Return a function that imports the target of a spec and calls it."""

    def call(*args: object, **kwargs: object) -> Any:
        return plugin.target(spec)(*args, **kwargs)

    return call


def _trace_converter(plugin: Plugin, spec: TraceConverterSpec) -> TraceConverter:
    """Return a converter that imports its target on first use."""
    from ace.protocols.trace_converters import TraceConverter

    def recognises(trace: object) -> float:
        if spec.accepts is not None and spec.accepts in _class_names(trace):
            return 1.0
        if spec.recognises is None:
            return 0.0
        return float(plugin.resolve(spec.recognises)(trace))

    def convert(trace: object) -> Mapping[str, object]:
        from ace.context import ACEStepContext

        converted = plugin.target(spec)()(ACEStepContext(sample=trace, trace=trace)).trace
        if not isinstance(converted, Mapping):
            raise TypeError(
                f"{plugin.owner}: {spec.target!r} must set ctx.trace to the standard trace dict, "
                f"not a {type(converted).__name__}"
            )
        return converted

    return TraceConverter(name=spec.name, recognises=recognises, convert=convert)


def _class_names(value: object) -> list[str]:
    """Return the names of the classes of a value in the format of specs, to compare them without imports."""
    return [f"{kind.__module__}:{kind.__qualname__}" for kind in type(value).__mro__]
