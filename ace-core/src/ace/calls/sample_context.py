"""What all code that works on a sample asks of its context: is it learned, is its run cancelled, whose calls are these.

`needed`, `is_learned` and `run_of` read the context; `model_calls_for` attributes model calls to the sample.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ace.calls.model_calls import call_scope, current_call_scope
from ace.pipeline import PipelineCancelled, cancel_token_var
from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from ace.context import ACEStepContext

__all__ = ["is_learned", "model_calls_for", "needed", "run_of", "stop_if_cancelled"]

T = TypeVar("T")


def needed(value: T | None, field: str, step: object) -> T:
    """Return the value of a field that a step requires.

    Args:
        field: The name of the field.
        step: The step that reads it.

    Raises:
        ValueError: The value is None.

    Example:
        >>> needed("a trace", "trace", object())
        'a trace'
    """
    if value is None:
        raise ValueError(
            f"{type(step).__name__} needs the context field {field!r}, which is None; "
            "it has to be set by an earlier step or the runner"
        )
    return value


def is_learned(ctx: ACEStepContext) -> bool:
    """Return whether an earlier call of the run has already written what the sample teaches.

    Such a sample is processed again only for the steps after `ApplyStep`, in which the run may have been killed.

    Args:
        ctx: The context of the sample; runners put `already_learned` into its metadata.
    """
    return bool(ctx.metadata.get("already_learned"))


def stop_if_cancelled() -> None:
    """Raise `PipelineCancelled` if the run of the sample was cancelled.

    The engine checks this only before foreground steps. A stopped run must not call models for all the samples that
    wait in the background.

    Raises:
        PipelineCancelled: The run was cancelled.
    """
    token = cancel_token_var.get()
    if token is not None and token.is_cancelled:
        raise PipelineCancelled("the run was stopped before this sample was learned")


@contextmanager
def model_calls_for(
    ctx: ACEStepContext,
    role: str,
    *,
    only_same_text: bool = False,
    allow: Collection[str] = (),
    again: bool = False,
    version: int | None = None,
    together: bool = False,
) -> Iterator[None]:
    """Count and record the model calls inside the block for this sample and role.

    Args:
        ctx: The context of the sample; runners put `sample_key`, `trace_id` and `attempts` into its metadata, and
            the first step that reads the trace its `trace_secrets`.
        role: The name of the role.
        only_same_text: Whether a recorded answer is used only for a request with the same text, see `RecordedAnswers`.
        allow: The classes of sensitive text that are not redacted, in addition to those that the run allows.
        again: Whether the role asks a second time about the sample; see `CallScope.asked_by`.
        version: The version of the skillbook to record with the answers.
        together: Whether the role asks about several samples at once, of which this is the first.

    Example:
        >>> from ace.context import ACEStepContext
        >>> from ace.calls.model_calls import current_call_scope
        >>> with model_calls_for(ACEStepContext(metadata={"trace_id": "log.jsonl#3"}), "Reflector"):
        ...     current_call_scope().trace_id
        'log.jsonl#3'
    """
    outer = current_call_scope()
    key = ctx.metadata.get("sample_key")
    run_id, epoch, sample = key if isinstance(key, SampleKey) else (outer.run_id, outer.epoch, outer.sample)
    scope = replace(
        outer,
        run_id=run_id,
        epoch=epoch,
        sample=sample,
        allow=outer.allow.union(allow),
        secrets=ctx.metadata.get("trace_secrets", ()),
        trace_id=str(ctx.metadata.get("trace_id", "")),
        attempts=ctx.metadata.get("attempts", {}),
    )
    scope = scope.asked_by(role, only_same_text=only_same_text, again=again, version=version, together=together)
    with call_scope(scope):
        yield


def run_of(ctx: ACEStepContext) -> str:
    """Return the name of the run that a sample belongs to; empty outside a run.

    Args:
        ctx: The context of the sample.
    """
    key = ctx.metadata.get("sample_key")
    return key.run if isinstance(key, SampleKey) else ""
