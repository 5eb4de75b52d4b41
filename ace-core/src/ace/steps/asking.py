"""Says for which sample and role a step calls a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ace.calls.model_calls import call_scope, current_call_scope
from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from ace.context import ACEStepContext

__all__ = ["asking", "run_of"]


@contextmanager
def asking(
    ctx: ACEStepContext, role: str, *, only_same_text: bool = False, allow: Collection[str] = ()
) -> Iterator[None]:
    """Have the model calls inside the block counted, and recorded, for this sample and role.

    Args:
        ctx: The context of the sample; runners put `sample_key`, `trace_id` and `attempts` into its metadata.
        role: The name of the role.
        only_same_text: Whether a recorded answer counts for no other request than its own, see `RecordedAnswers`.
        allow: The classes of sensitive text that are not redacted, besides those that the run allows.

    Example:
        >>> from ace.context import ACEStepContext
        >>> from ace.calls.model_calls import current_call_scope
        >>> with asking(ACEStepContext(metadata={"trace_id": "log.jsonl#3"}), "Reflector"):
        ...     current_call_scope().trace_id
        'log.jsonl#3'
    """
    scope = replace(
        current_call_scope(),
        allow=current_call_scope().allow | frozenset(allow),
        trace_id=str(ctx.metadata.get("trace_id", "")),
        attempts=ctx.metadata.get("attempts", {}),
    )
    key = ctx.metadata.get("sample_key")
    if isinstance(key, SampleKey):
        scope = replace(scope, run_id=key.run, epoch=key.epoch, sample=key.sample)
    with call_scope(scope.asked_by(role, only_same_text=only_same_text)):
        yield


def run_of(ctx: ACEStepContext) -> str:
    """Return the name of the run that a sample belongs to; empty outside a run.

    Args:
        ctx: The context of the sample.
    """
    key = ctx.metadata.get("sample_key")
    return key.run if isinstance(key, SampleKey) else ""
