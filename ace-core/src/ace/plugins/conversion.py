"""Makes of a trace converter's spec what the registry of trace converters holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ace.protocols.trace_converters import TraceConverter

if TYPE_CHECKING:
    from ace.plugins.loading import LoadedPlugin
    from ace.plugins.specs import TraceConverterSpec

__all__ = ["trace_converter"]


def trace_converter(plugin: LoadedPlugin, spec: TraceConverterSpec) -> TraceConverter:
    """Return a converter that imports what it needs when it is first used.

    Args:
        plugin: The plugin.
        spec: One of its specs.
    """

    def recognises(trace: object) -> float:
        if spec.accepts is not None and spec.accepts in _class_names(trace):
            return 1.0
        if spec.recognises is None:
            return 0.0
        score: Any = plugin.targets.resolve(spec.recognises)
        return float(score(trace))

    def convert(trace: object) -> Mapping[str, object]:
        from ace.context import ACEStepContext

        converted = plugin.resolve(spec)()(ACEStepContext(sample=trace, trace=trace)).trace
        if not isinstance(converted, Mapping):
            raise TypeError(
                f"{plugin.targets.owner}: {spec.target!r} must put the standard trace dict on ctx.trace, "
                f"not a {type(converted).__name__}"
            )
        return converted

    return TraceConverter(name=spec.name, recognises=recognises, convert=convert)


def _class_names(value: object) -> list[str]:
    """Return the classes of a value, as a spec writes them; nothing has to be imported to compare them."""
    return [f"{kind.__module__}:{kind.__qualname__}" for kind in type(value).__mro__]
