"""The registry of converters from a framework's result to the standard trace dict.

`ace.plugins` fills it when the trace reader first searches it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ace._internal.registry import Registry
from ace.protocols.errors import error_text

__all__ = [
    "AmbiguousTraceError",
    "TraceConversionError",
    "TraceConverter",
    "converted_trace",
    "find_trace_converter",
    "register_trace_converter",
    "trace_converters",
    "unregister_trace_converter",
]

_logger = logging.getLogger(__name__)


class AmbiguousTraceError(ValueError):
    """Two converters claim the same trace with the same score."""


class TraceConversionError(ValueError):
    """A converter claimed a trace but could not convert it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceConverter:
    """A converter for the traces of one framework."""

    name: str
    """The unique name, that of the plugin."""
    recognises: Callable[[object], float]
    """Returns a score from 0 (not supported) to 1 (certain) for a trace."""
    convert: Callable[[object], Mapping[str, object]]
    """Returns the standard trace dict for a trace."""


_converters = Registry[TraceConverter]("trace_converters", "a trace converter")


def register_trace_converter(converter: TraceConverter) -> None:
    """Register a converter.

    Raises:
        ValueError: Another converter has the same name.
    """
    _converters.register(converter.name, converter)


def unregister_trace_converter(name: str) -> None:
    """Unregister a converter; an unknown name is ignored.

    Args:
        name: The name of the converter.
    """
    _converters.unregister(name)


def trace_converters() -> list[TraceConverter]:
    """Return the registered converters, sorted by name."""
    return _converters.sorted()


def find_trace_converter(trace: object) -> TraceConverter | None:
    """Return the converter with the highest score for a trace, or None if no converter claims it.

    Args:
        trace: A trace of any type.

    Raises:
        AmbiguousTraceError: Two converters have the same highest score.
    """
    scored = [(_score(converter, trace), converter) for converter in trace_converters()]
    highest = max((score for score, _ in scored), default=0.0)
    if highest <= 0.0:
        return None
    best = [converter for score, converter in scored if score == highest]
    if len(best) > 1:
        names = " and ".join(repr(converter.name) for converter in best)
        raise AmbiguousTraceError(
            f"the trace converters {names} both claim this {type(trace).__name__} with score {highest}; "
            "disable one of them or convert the trace yourself"
        )
    return best[0]


def converted_trace(converter: TraceConverter, trace: object) -> dict[str, object]:
    """Convert a trace with a converter.

    Args:
        converter: One that claims the trace.

    Raises:
        TraceConversionError: It raises, or returns something other than a dict.
    """
    try:
        converted: object = converter.convert(trace)
        if not isinstance(converted, Mapping):
            raise TypeError(f"it returned a {type(converted).__name__} instead of the standard trace dict")
        return dict(converted)
    except TraceConversionError:  # of the converter that this one has asked
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a converter that calls sys.exit() must not end the program
        raise TraceConversionError(
            f"the trace converter {converter.name!r} claims this {type(trace).__name__} but cannot convert it: "
            f"{type(error).__name__}: {error_text(error)}; fix it, or disable its plugin to read the trace "
            "without it"
        ) from error


def _score(converter: TraceConverter, trace: object) -> float:
    """Return the score of one converter; a failing converter must not prevent the use of others."""
    try:
        score = float(converter.recognises(trace))
        if math.isnan(score):
            raise ValueError("the score is not a number")
        return score
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"while the trace converter {converter.name!r} looked at a {type(trace).__name__}")
        raise
    except BaseException:  # a recogniser that calls sys.exit() must not end the program
        _logger.warning(
            "the trace converter %r failed while looking at a %s, and is skipped for it",
            converter.name,
            type(trace).__name__,
            exc_info=True,
        )
        return 0.0
