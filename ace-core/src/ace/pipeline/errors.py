"""The errors that the pipeline engine raises or sets on a result, and how it reports problems without causing new ones.

A hook, a callback or a step may raise an error whose message cannot be formatted, and a logging handler may raise, for
example because its terminal is gone. Neither may keep a sample from being counted or a lane from being released.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence


class PipelineError(Exception):
    """Base class of every error that comes from the engine itself, not from a step.

    Example:
        >>> issubclass(PipelineCancelled, PipelineError)
        True
    """


class PipelineConfigError(PipelineError):
    """A pipeline or a branch cannot be built or changed as requested."""


class PipelineTypeError(PipelineConfigError, TypeError):
    """An argument or a declaration of a step has the wrong type."""


class PipelineOrderError(PipelineConfigError):
    """A step requires a field that only a later step of the same pipeline provides."""


class PipelineCancelled(PipelineError):
    """The sample was abandoned because its run was cancelled.

    The engine sets it on the result of every sample that a cancelled run did not finish. A step may raise it to abandon
    its own sample; it then becomes that sample's error.
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
        """Copy and unpickle from the failures, not from the message."""
        return type(self), (self.failures,), self.__dict__


class MergeConflictError(PipelineError, ValueError):
    """Two children of a branch wrote different values to one field.

    Args:
        message: Which values differ, in which field, and what to do about it.
    """

    failed_at = "Branch"


_LONGEST_VALUE = 80


def log_problem(
    logger: logging.Logger, level: int, message: str, *args: object, error: BaseException | None = None
) -> None:
    """Log a message; errors of handlers are ignored.

    Args:
        level: The level of the message.
        message: The message, with `%` placeholders.
        *args: The values for the placeholders.
        error: The error whose traceback belongs to the message.
    """
    try:
        logger.log(level, message, *args, exc_info=error)
    except Exception:
        # It cannot be reported anywhere else, and raising it in the engine would lose a sample over a line of text.
        return


def error_text(error: BaseException) -> str:
    """Return the type and the message of an error, such as `ValueError: no such page`."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception as failure:
        return f"{name} (its message raised {type(failure).__name__})"


def value_text(value: object) -> str:
    """Return the `repr` of a value, shortened to 80 characters."""
    try:
        text = repr(value)
    except Exception as failure:
        text = f"<{type(value).__name__} whose repr raised {type(failure).__name__}>"
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
