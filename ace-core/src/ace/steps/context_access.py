"""Functions with which the steps of the learning core read the context of a sample, and attribute model calls to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ace.calls.model_calls import call_scope, current_call_scope
from ace.pipeline import PipelineCancelled, cancel_token_var
from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.redaction import Redactor

__all__ = ["is_learned", "model_calls_for", "names_in_batch", "needed", "run_of", "stop_if_cancelled"]

T = TypeVar("T")


def needed(value: T | None, field: str, step: object) -> T:
    """Return the value of a field that a step requires.

    Args:
        value: The value.
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
        ctx: The context of the sample; runners put `sample_key`, `trace_id` and `attempts` into its metadata.
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
    scope = replace(
        current_call_scope(),
        allow=current_call_scope().allow | frozenset(allow),
        trace_id=str(ctx.metadata.get("trace_id", "")),
        attempts=ctx.metadata.get("attempts", {}),
    )
    key = ctx.metadata.get("sample_key")
    if isinstance(key, SampleKey):
        scope = replace(scope, run_id=key.run, epoch=key.epoch, sample=key.sample)
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


def names_in_batch(ctx: ACEStepContext, redactor: Redactor) -> dict[str, str]:
    """Return the ids of the traces in a batch, by the names that the reflector knows; empty for a single trace.

    Args:
        ctx: The context of the sample.
        redactor: The redactor of the prompt, which also redacts names.
    """
    from ace.roles.trace_reading import shown_names, traces_in_batch

    batch = traces_in_batch(ctx.trace)
    if batch is None:
        return {}
    ids: Mapping[str, str] = ctx.metadata.get("trace_ids", {})
    return {shown: ids.get(name, name) for shown, name in shown_names(batch, redactor).items()}
