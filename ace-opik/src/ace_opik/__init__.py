"""Sends a trace of each sample, each recursive reflection and each LiteLLM call to Opik.

Nothing is sent until a step is created, the callback is registered, or `ACELiteLLM.from_model(..., opik=True)` is
called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

if TYPE_CHECKING:
    from ace_opik.connection import flush
    from ace_opik.litellm_calls import register_opik_litellm_callback
    from ace_opik.steps import OpikStep, RROpikStep

__all__ = ["OpikStep", "RROpikStep", "flush", "register_opik_litellm_callback"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "OpikStep": "steps",
        "RROpikStep": "steps",
        "flush": "connection",
        "register_opik_litellm_callback": "litellm_calls",
    },
)
