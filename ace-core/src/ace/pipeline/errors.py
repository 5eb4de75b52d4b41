"""The errors that the pipeline engine raises or puts on a result."""

from __future__ import annotations

from collections.abc import Sequence

from .problem_reports import error_text


class PipelineError(Exception):
    """Base class of every error that comes from the engine itself, not from a step.

    Example:
        >>> issubclass(PipelineCancelled, PipelineError)
        True
    """


class PipelineConfigError(PipelineError):
    """A pipeline or a branch cannot be built, or be changed, the way it was asked for."""


class PipelineTypeError(PipelineConfigError, TypeError):
    """Something that a pipeline is built from is of the wrong type."""


class PipelineOrderError(PipelineConfigError):
    """A step needs a field that only a later step of the same pipeline provides."""


class PipelineCancelled(PipelineError):
    """The sample was given up because its run was cancelled.

    The engine puts it on the result of every sample that a cancelled run did not finish. A step may raise it
    to give up its own sample; it ends as that sample's error.
    """


class BranchError(PipelineError):
    """One or more children of a branch failed.

    Args:
        failures: The children's errors, in child order.

    Example:
        >>> BranchError([ValueError("no such page"), KeyError("title")]).failures[0]
        ValueError('no such page')
    """

    def __init__(self, failures: Sequence[BaseException]) -> None:
        self.failures: list[BaseException] = list(failures)
        texts = "; ".join(map(error_text, self.failures))
        count = len(self.failures)
        super().__init__(f"{count} {'child' if count == 1 else 'children'} of the branch failed: {texts}")

    def __reduce__(self) -> tuple[type[BranchError], tuple[list[BaseException]], dict[str, object]]:
        """Have a copy made from the failures, not from the text."""
        return type(self), (self.failures,), self.__dict__


class MergeConflictError(PipelineError, ValueError):
    """Two children of a branch wrote different values to one field.

    Args:
        message: What collided, where, and what to do about it.
    """

    failed_at = "Branch"
