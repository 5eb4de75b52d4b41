"""Puts what plugins give into the registries of the lower layers, which ask for it when they are looked into."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ace.plugins.errors import PluginConflictError, PluginError
from ace.plugins.plugin_code import loading_lock
from ace.plugins.selection import is_strict
from ace.plugins.specs import EmbedderSpec, LLMClientSpec, ObserverSpec, Spec, StoreSpec, TraceConverterSpec

if TYPE_CHECKING:
    from ace.plugins.catalogue import CataloguedPlugin
    from ace.plugins.loading import LoadedPlugin

__all__ = ["fill", "forget"]

_logger = logging.getLogger(__name__)
_working = False
_done: set[tuple[str, str | None, bool]] = set()
_tried: set[tuple[str, CataloguedPlugin]] = set()
_warned: set[tuple[CataloguedPlugin, str]] = set()
_undo: dict[CataloguedPlugin, list[Callable[[], None]]] = {}
_built_in: LoadedPlugin | None = None
_built_in_kinds: set[str] = set()


def fill(kind: str, *, name: str | None = None, built_in: bool = False) -> None:
    """Register what plugins give of one kind, as far as that has not been done.

    Args:
        kind: Such as `trace_converters`.
        name: Only of the plugin with this name, if there is one.
        built_in: Only what comes with ace.

    Raises:
        PluginError: The plugin of this name cannot be loaded. (Others are skipped, with one warning each, except
            under `ACE_PLUGINS_STRICT=1`.)
    """
    global _working
    if (kind, name, built_in) in _done:
        return
    with loading_lock:
        if _working:  # a plugin that is being loaded looks into a registry
            return
        _working = True
        try:
            _register_built_in(kind)
            is_complete = built_in or _register_installed(kind, name)
        finally:
            _working = False
        if is_complete:
            _done.add((kind, name, built_in))


def forget(plugin: CataloguedPlugin) -> None:
    """Take what a plugin gave out of the registries, and look anew at the next question.

    Args:
        plugin: The plugin.
    """
    with loading_lock:
        for undo in _undo.pop(plugin, []):
            undo()
        _tried.difference_update({pair for pair in _tried if pair[1] is plugin})
        _warned.difference_update({pair for pair in _warned if pair[0] is plugin})
        _done.clear()


def _register_built_in(kind: str) -> None:
    global _built_in
    if _built_in is None:
        from ace.plugins import built_in
        from ace.plugins.loading import load_hooks

        _built_in = load_hooks(built_in, "ace", "ace-core", own_names=False)
    if kind not in _built_in_kinds:
        for spec in _built_in.specs.get(kind, ()):
            _register(_built_in, spec)
        _built_in_kinds.add(kind)


def _register_installed(kind: str, name: str | None) -> bool:
    """Register what installed plugins give. Returns whether all have been asked: one that is being loaded is not."""
    from ace.plugins.catalogue import catalogue

    plugins = catalogue()
    if name in {plugin.installed.name for plugin in plugins.plugins() if plugin.installed.is_enabled}:
        plugins.find(str(name))  # raises where the name is in conflict
    is_complete = True
    for plugin in plugins.giving(kind):
        if (kind, plugin) in _tried or name not in (None, plugin.installed.name):
            continue
        if plugin.is_loading:
            is_complete = False
            continue
        try:
            loaded = plugin.load()
            _undo.setdefault(plugin, []).extend(_register(loaded, spec) for spec in loaded.specs.get(kind, ()))
        except PluginError as error:
            if name is not None or is_strict(os.environ):
                raise
            if (plugin, str(error)) not in _warned:  # it is asked once for each kind
                _warned.add((plugin, str(error)))
                _logger.warning("%s", error)
        _tried.add((kind, plugin))
    return is_complete


def _register(plugin: LoadedPlugin, spec: Spec) -> Callable[[], None]:
    """Put one spec into its registry; return the function that removes it again."""
    try:
        return _REGISTRARS[type(spec)](plugin, spec)
    except ValueError as error:
        raise PluginConflictError(f"{plugin.targets.owner}: {error}") from error


def _register_converter(plugin: LoadedPlugin, spec: TraceConverterSpec) -> Callable[[], None]:
    from ace.plugins.conversion import trace_converter
    from ace.protocols.trace_converters import register_trace_converter, unregister_trace_converter

    register_trace_converter(trace_converter(plugin, spec))
    return lambda: unregister_trace_converter(spec.name)


def _register_client(plugin: LoadedPlugin, spec: LLMClientSpec) -> Callable[[], None]:
    from ace.protocols.model_prefixes import register_model_prefix, unregister_model_prefix

    register_model_prefix(spec.name, lambda model, **settings: plugin.resolve(spec)(model, **settings))
    return lambda: unregister_model_prefix(spec.name)


def _register_store(plugin: LoadedPlugin, spec: StoreSpec) -> Callable[[], None]:
    from ace.skillbook.stores import StoreKind, register_store, unregister_store

    register_store(
        StoreKind(
            name=spec.name,
            open=lambda location: plugin.resolve(spec)(location),
            schemes=spec.schemes,
            suffixes=spec.suffixes,
        )
    )
    return lambda: unregister_store(spec.name)


def _register_embedder(plugin: LoadedPlugin, spec: EmbedderSpec) -> Callable[[], None]:
    from ace.protocols.deduplication import register_embedder, unregister_embedder

    register_embedder(spec.name, lambda model: plugin.resolve(spec)(model))
    return lambda: unregister_embedder(spec.name)


def _register_observer(plugin: LoadedPlugin, spec: ObserverSpec) -> Callable[[], None]:
    from ace.protocols.observers import register_observer, unregister_observer

    register_observer(spec.name, lambda event: plugin.resolve(spec)(event))
    return lambda: unregister_observer(spec.name)


_REGISTRARS: dict[type[Spec], Callable[[LoadedPlugin, Any], Callable[[], None]]] = {
    TraceConverterSpec: _register_converter,
    LLMClientSpec: _register_client,
    StoreSpec: _register_store,
    EmbedderSpec: _register_embedder,
    ObserverSpec: _register_observer,
}
