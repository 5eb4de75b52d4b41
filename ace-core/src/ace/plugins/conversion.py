"""Makes of a trace converter's spec what the registry of trace converters holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ace.protocols.trace_converters import TraceConverter

if TYPE_CHECKING:
    from ace.plugins.loading import LoadedPlugin
    from ace.plugins.specs import TraceConverterSpec

__all__ = ["HEAD_SIZE", "trace_converter"]

HEAD_SIZE: Final = 64 * 1024
"""How many bytes of a file a recogniser gets to see."""


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
        return float(score(_head_of(trace) if isinstance(trace, Path) else trace))

    def convert(trace: object) -> Mapping[str, object]:
        from ace.context import ACEStepContext

        converted = plugin.resolve(spec)()(ACEStepContext(sample=trace, trace=trace)).trace
        if not isinstance(converted, Mapping):
            raise TypeError(
                f"{plugin.targets.owner}: {spec.target!r} must put the standard trace dict on ctx.trace, "
                f"not a {type(converted).__name__}"
            )
        return converted

    def parts(value: object) -> Sequence[tuple[str | None, object]]:
        assert spec.parts is not None
        function: Any = plugin.targets.resolve(spec.parts)
        return [(key, part) for key, part in function(value)]

    return TraceConverter(
        name=spec.name, recognises=recognises, convert=convert, parts=None if spec.parts is None else parts
    )


def _head_of(path: Path) -> bytes:
    """Return the beginning of a file; empty if it cannot be read, which the reader of the file reports."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_SIZE)
    except OSError:
        return b""


def _class_names(value: object) -> list[str]:
    """Return the classes of a value, as a spec writes them; nothing has to be imported to compare them."""
    return [f"{kind.__module__}:{kind.__qualname__}" for kind in type(value).__mro__]
