"""`AcmeToTrace`, which converts results to the standard trace, without the framework."""

from __future__ import annotations

from ace.context import ACEStepContext
from ace_acme.logs import run_of_result
from ace_acme.result import AcmeResult

__all__ = ["AcmeToTrace"]


class AcmeToTrace:
    """Converts an `AcmeResult` to the standard trace dict."""

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Set `trace` to the standard trace.

        Raises:
            TypeError: `trace` is not a result.
        """
        if not isinstance(ctx.trace, AcmeResult):
            raise TypeError(f"AcmeToTrace requires an AcmeResult, got {type(ctx.trace).__name__}")
        return ctx.replace(trace=run_of_result(ctx.trace).to_trace())
