"""`AcmeToTrace`, which converts results and logs to the standard trace, without the framework."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ace.context import ACEStepContext
from ace_acme.result import AcmeResult, Deed

__all__ = ["AcmeToTrace"]

_KINDS = {"called": "call", "returned": "result", "failed": "result"}


class AcmeToTrace:
    """Converts an `AcmeResult`, or a log of Acme, to the standard trace dict."""

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Set `trace` to the standard trace.

        Raises:
            TypeError: `trace` is neither a result nor a log.
        """
        return ctx.replace(trace=_standard_trace(_result_of(ctx.trace)))


def _result_of(record: object) -> AcmeResult:
    if isinstance(record, AcmeResult):
        return record
    if isinstance(record, Path):
        record = json.loads(record.read_text(encoding="utf-8"))
    if not isinstance(record, dict) or "acme_log" not in record:
        raise TypeError(f"AcmeToTrace requires an AcmeResult or a log of Acme, got {type(record).__name__}")
    log: dict[str, Any] = record
    deeds = tuple(Deed(entry["kind"], entry["name"], entry["text"]) for entry in log["entries"])
    return AcmeResult(log["assignment"], success=None, output=log["answer"] or "", deeds=deeds)


def _standard_trace(result: AcmeResult) -> dict[str, object]:
    steps = [
        {
            "kind": _KINDS.get(deed.kind, "message"),
            "name": deed.name,
            "content": deed.text,
            "is_error": deed.kind == "failed",
            "place": str(number),
        }
        for number, deed in enumerate(result.deeds, 1)
    ]
    return {
        "schema": 1,
        "question": result.task,
        "reasoning": "\n".join(f"{deed.kind} {deed.name}: {deed.text}" for deed in result.deeds),
        "answer": result.output,
        "skill_ids": list(result.skill_ids),
        "feedback": f"The run failed: {result.error}" if result.error else "The run completed.",
        "success": result.success,
        "steps": steps,
        "metadata": {"integration": "acme"},
    }
