"""The outcome of one sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic

from .context import ContextT
from .errors import BranchError


@dataclass(slots=True)
class SampleResult(Generic[ContextT]):
    """What became of one sample. A run yields exactly one for each context that it was given.

    Behind an async boundary the object changes after it was handed out: the background replaces `output` when
    it ends, or puts its error here.

    Args:
        sample: The `sample` of the context that went in.
        output: The final context: the foreground's as soon as that has ended, the background's when that has.
            None if a step failed or the sample was cancelled.
        error: What a step raised, or a `PipelineCancelled`; None if nothing went wrong.
        failed_at: Class name of the step that failed or, for a cancelled sample, of the step that would have
            come next.
        cause: For a failed branch, the first error of its children.
        index: The sample's position in the input of the run, from 0; -1 where it is not the result of a run. Results
            are compared without it.

    Example:
        >>> SampleResult("question", None, ValueError("no answer"), "AgentStep").failed_at
        'AgentStep'
    """

    sample: Any  # the caller's own object, see StepContext.sample
    output: ContextT | None
    error: BaseException | None
    failed_at: str | None
    cause: BaseException | None = None
    index: int = field(default=-1, compare=False)  # where it came says nothing about what became of it


def record_failure(result: SampleResult[ContextT], error: BaseException, step_name: str | None) -> None:
    """Note on a result that a step failed. `error` is set last: who sees it sees the rest too."""
    result.output = None
    result.failed_at = step_name
    if isinstance(error, BranchError):
        result.cause = error.failures[0]
    result.error = error
