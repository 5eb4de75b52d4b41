"""Sends ACE's runs, samples, steps and model calls as OpenTelemetry spans, metrics and log events.

Nothing is sent unless `ace ... --otel`, `ACE_OTEL=1` or `instrument()` enables it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

if TYPE_CHECKING:
    from ace_otel.conventions import SEMANTIC_CONVENTIONS
    from ace_otel.instrumentation import Instrumentation, instrument

__all__ = ["SEMANTIC_CONVENTIONS", "Instrumentation", "instrument"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Instrumentation": "instrumentation",
        "SEMANTIC_CONVENTIONS": "conventions",
        "instrument": "instrumentation",
    },
)
