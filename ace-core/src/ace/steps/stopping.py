"""What a step of the learning core looks at before it begins with a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.pipeline import PipelineCancelled, cancel_token_var

if TYPE_CHECKING:
    from ace.context import ACEStepContext

__all__ = ["is_learned", "stop_if_cancelled"]


def is_learned(ctx: ACEStepContext) -> bool:
    """Tell whether an earlier call of the run has written what the sample teaches.

    Such a sample comes again only for the steps behind `ApplyStep`, which the run may have been killed in.

    Args:
        ctx: The context of the sample; runners put `already_learned` into its metadata.
    """
    return bool(ctx.metadata.get("already_learned"))


def stop_if_cancelled() -> None:
    """End the sample here if its run was cancelled.

    The engine does this before foreground steps only. A run that is stopped shall not call models for all the
    samples that wait in the background.

    Raises:
        PipelineCancelled: The run was cancelled.
    """
    token = cancel_token_var.get()
    if token is not None and token.is_cancelled:
        raise PipelineCancelled("the run was stopped before this sample was learned")
