"""Registers what plugins provide in the registries of the lower layers, when these are used."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from ace.lazy_plugins import filled
from ace.plugins.catalogue import loading_lock
from ace.plugins.discovery import is_strict
from ace.plugins.errors import PluginConflictError, PluginError
from ace.plugins.hooks import hookimpl
from ace.plugins.loading import PluginCode, load_hooks
from ace.plugins.specs import (
    EmbedderSpec,
    ExtraStepsSpec,
    LLMClientSpec,
    ObserverSpec,
    Spec,
    StoreSpec,
    TraceConverterSpec,
)

if TYPE_CHECKING:
    from ace.plugins.catalogue import CataloguedPlugin
    from ace.plugins.loading import LoadedPlugin
    from ace.protocols.trace_converters import TraceConverter

__all__ = ["fill", "forget"]

_logger = logging.getLogger(__name__)
_working = False
_tried: set[tuple[str, CataloguedPlugin]] = set()
_warned: set[tuple[CataloguedPlugin, str]] = set()
_undo: dict[CataloguedPlugin, list[Callable[[], None]]] = {}
_built_in: LoadedPlugin | None = None
_built_in_kinds: set[str] = set()

_HEAD_SIZE: Final = 64 * 1024
"""The number of bytes of a file that are passed to a recogniser."""


@final
class _BuiltIn:
    """What ace itself provides through the same hooks as plugins: stores, clients, embedders and trace converters."""

    ACE_API = 1

    @hookimpl
    def ace_stores(self) -> Iterator[StoreSpec]:
        """Yield SQLite."""
        yield StoreSpec(
            name="sqlite",
            target="ace.skillbook.sqlite_store:SqliteStore",
            suffixes=(".db", ".sqlite", ".sqlite3"),
            summary="Skillbooks with history in one file on a local disk",
        )

    @hookimpl
    def ace_llm_clients(self) -> Iterator[LLMClientSpec]:
        """Yield the client for local models: `local/` and a name of the catalogue or the path of a GGUF file."""
        yield LLMClientSpec(
            name="local",
            target="ace.providers.local.client:client_of_model_string",
            summary="Models on this machine, with ace-core[local]",
        )

    @hookimpl
    def ace_embedders(self) -> Iterator[EmbedderSpec]:
        """Yield the embedding models that LiteLLM supports, and local word vectors, which do not need a key."""
        yield EmbedderSpec(
            name="litellm",
            target="ace.providers.embedders:LiteLLMEmbedder",
            summary="Vectors of any embedding model that LiteLLM supports",
        )
        yield EmbedderSpec(
            name="local",
            target="ace.providers.embedders:WordLlamaEmbedder",
            summary="Word vectors on this machine, with ace-core[embeddings]",
        )

    @hookimpl
    def ace_trace_converters(self) -> Iterator[TraceConverterSpec]:
        """Yield the converters of OpenTelemetry spans, the common format of all frameworks, and of the trace log."""
        yield TraceConverterSpec(
            name="otlp",
            target="ace.otlp:OtlpToTrace",
            recognises="ace.otlp:recognise",
            parts="ace.otlp:parts_of",
            summary="Read exports of OpenTelemetry spans with GenAI or OpenInference attributes",
        )
        yield TraceConverterSpec(
            name="execution_trace",
            target="ace.trace_log:ExecutionToTrace",
            recognises="ace.trace_log:recognise",
            parts="ace.trace_log:parts_of",
            place="ace.trace_log:place_of",
            summary="Read the log of attempts at tasks that `ace capture` writes",
        )


def fill(kind: str, *, name: str | None = None, built_in: bool = False) -> None:
    """Register what plugins provide of one kind. `ace.lazy_plugins.fill` calls it unless that has been done already.

    Args:
        kind: The kind, such as `trace_converters`.
        name: Only register the plugin of this name, if it exists.
        built_in: Only register what is part of ace.

    Raises:
        PluginError: The plugin of this name cannot be loaded. (Without a name, such plugins are skipped with a warning,
            except with `ACE_PLUGINS_STRICT=1`.)
    """
    global _working
    with loading_lock:
        if _working:  # a plugin that is being loaded uses a registry
            return
        _working = True
        try:
            _register_built_in(kind)
            is_complete = built_in or _register_installed(kind, name)
        finally:
            _working = False
        if is_complete:
            filled.add((kind, name, built_in))


def forget(plugin: CataloguedPlugin) -> None:
    """Remove what a plugin provided from the registries, and search the plugins again on their next use."""
    with loading_lock:
        for undo in _undo.pop(plugin, []):
            undo()
        _tried.difference_update({pair for pair in _tried if pair[1] is plugin})
        _warned.difference_update({pair for pair in _warned if pair[0] is plugin})
        filled.clear()


def _register_built_in(kind: str) -> None:
    global _built_in
    if _built_in is None:
        _built_in = load_hooks(_BuiltIn(), "ace", "ace-core", own_names=False)
    if kind not in _built_in_kinds:
        for spec in _built_in.specs.get(kind, ()):
            _register(_built_in, spec)
        _built_in_kinds.add(kind)


def _register_installed(kind: str, name: str | None) -> bool:
    """Register what installed plugins provide; return whether none was skipped because it is being loaded."""
    from ace.plugins.catalogue import catalogue

    plugins = catalogue()
    if name in {plugin.installed.name for plugin in plugins.plugins() if plugin.installed.is_enabled}:
        plugins.find(str(name))  # raises if the name is in conflict
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
            if (plugin, str(error)) not in _warned:  # this is called for each kind
                _warned.add((plugin, str(error)))
                _logger.warning("%s", error)
        _tried.add((kind, plugin))
    return is_complete


def _register(plugin: LoadedPlugin, spec: Spec) -> Callable[[], None]:
    """Add one spec to its registry; return the function that removes it."""
    try:
        return _REGISTRARS[type(spec)](plugin, spec)
    except ValueError as error:
        raise PluginConflictError(f"{plugin.targets.owner}: {error}") from error


def _register_converter(plugin: LoadedPlugin, spec: TraceConverterSpec) -> Callable[[], None]:
    from ace.protocols.trace_converters import register_trace_converter, unregister_trace_converter

    register_trace_converter(_trace_converter(plugin, spec))
    return lambda: unregister_trace_converter(spec.name)


def _register_client(plugin: LoadedPlugin, spec: LLMClientSpec) -> Callable[[], None]:
    from ace.protocols.llm import register_model_prefix, unregister_model_prefix

    register_model_prefix(spec.name, _watched(plugin, spec, "creating a model client with"))
    return lambda: unregister_model_prefix(spec.name)


def _register_store(plugin: LoadedPlugin, spec: StoreSpec) -> Callable[[], None]:
    from ace.skillbook.stores import StoreKind, register_store, unregister_store

    register_store(
        StoreKind(
            name=spec.name,
            open=_watched(plugin, spec, "opening a skillbook with"),
            schemes=spec.schemes,
            suffixes=spec.suffixes,
        )
    )
    return lambda: unregister_store(spec.name)


def _register_embedder(plugin: LoadedPlugin, spec: EmbedderSpec) -> Callable[[], None]:
    from ace.protocols.deduplication import register_embedder, unregister_embedder

    register_embedder(spec.name, _watched(plugin, spec, "creating an embedder with"))
    return lambda: unregister_embedder(spec.name)


def _register_observer(plugin: LoadedPlugin, spec: ObserverSpec) -> Callable[[], None]:
    from ace.protocols.observers import register_observer, unregister_observer

    if not spec.is_enabled(os.environ):
        return lambda: None
    register_observer(spec.name, _watched(plugin, spec, "calling the observer of", adds_up=True))
    return lambda: unregister_observer(spec.name)


def _register_extra_steps(plugin: LoadedPlugin, spec: ExtraStepsSpec) -> Callable[[], None]:
    from ace.runners.extra_steps import ExtraSteps, register_extra_steps, unregister_extra_steps

    create = _watched(plugin, spec, "creating the steps of")
    register_extra_steps(spec.name, ExtraSteps(create, spec.options))
    return lambda: unregister_extra_steps(spec.name)


_REGISTRARS: dict[type[Spec], Callable[[LoadedPlugin, Any], Callable[[], None]]] = {
    TraceConverterSpec: _register_converter,
    LLMClientSpec: _register_client,
    StoreSpec: _register_store,
    EmbedderSpec: _register_embedder,
    ObserverSpec: _register_observer,
    ExtraStepsSpec: _register_extra_steps,
}


def _watched(plugin: LoadedPlugin, spec: Spec, doing: str, *, adds_up: bool = False) -> Callable[..., Any]:
    """Return a function that imports the target of a spec and calls it; a warning names the plugin if that takes long.

    Args:
        doing: What the call does, to be followed by the name of the plugin.
        adds_up: As for `PluginCode`.
    """
    code = PluginCode(f"{doing} {plugin.targets.owner}", adds_up=adds_up)

    def call(*args: object, **kwargs: object) -> Any:
        target = plugin.resolve(spec)
        with code.running():
            return target(*args, **kwargs)

    return call


def _trace_converter(plugin: LoadedPlugin, spec: TraceConverterSpec) -> TraceConverter:
    """Return a converter that imports its target on first use."""
    from ace.protocols.trace_converters import TraceConverter

    recognising = PluginCode(f"calling the recogniser of {plugin.targets.owner}", adds_up=True)
    converting = PluginCode(f"converting a trace with {plugin.targets.owner}")
    splitting = PluginCode(f"splitting a file with {plugin.targets.owner}")

    def recognises(trace: object) -> float:
        if spec.accepts is not None and spec.accepts in _class_names(trace):
            return 1.0
        if spec.recognises is None:
            return 0.0
        score: Any = plugin.targets.resolve(spec.recognises)
        head = _head_of(trace) if isinstance(trace, Path) else trace
        with recognising.running():
            return float(score(head))

    def convert(trace: object) -> Mapping[str, object]:
        from ace.context import ACEStepContext

        converter = plugin.resolve(spec)
        with converting.running():
            converted = converter()(ACEStepContext(sample=trace, trace=trace)).trace
        if not isinstance(converted, Mapping):
            raise TypeError(
                f"{plugin.targets.owner}: {spec.target!r} must set ctx.trace to the standard trace dict, "
                f"not a {type(converted).__name__}"
            )
        return converted

    def parts(value: object) -> Sequence[tuple[str | None, object]]:
        assert spec.parts is not None
        function: Any = plugin.targets.resolve(spec.parts)
        with splitting.running():
            return [(key, part) for key, part in function(value)]

    def place(part: object) -> str:
        assert spec.place is not None
        function: Any = plugin.targets.resolve(spec.place)
        with splitting.running():
            return str(function(part))

    return TraceConverter(
        name=spec.name,
        recognises=recognises,
        convert=convert,
        parts=None if spec.parts is None else parts,
        place=None if spec.place is None else place,
    )


def _head_of(path: Path) -> bytes:
    """Return the beginning of a file; empty if it cannot be read, which is reported later."""
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_SIZE)
    except OSError:
        return b""


def _class_names(value: object) -> list[str]:
    """Return the names of the classes of a value in the format of specs, to compare them without imports."""
    return [f"{kind.__module__}:{kind.__qualname__}" for kind in type(value).__mro__]
