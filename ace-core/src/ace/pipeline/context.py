"""The immutable context that a sample carries from step to step, and the result of a sample."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar

from .errors import BranchError

ContextT = TypeVar("ContextT", bound="StepContext")


@dataclass(frozen=True)
class StepContext:
    """What one sample carries through a pipeline.

    Applications subclass it to add fields. Data that only one integration needs goes into `metadata`.

    Args:
        sample: The input that the run was given, of any type.
        metadata: Further data by name. A plain dict is copied and wrapped, so that it can no longer change.

    Example:
        >>> ctx = StepContext(sample="What is ACE?", metadata={"source": "faq"})
        >>> ctx.replace(sample="What is a skill?").sample
        'What is a skill?'
        >>> ctx.metadata["source"]
        'faq'
    """

    sample: Any = None  # any object of the caller's; the engine only passes it on
    metadata: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    _fast_replace_size: ClassVar[int] = -1

    def __init_subclass__(cls, **options: Any) -> None:  # options: class keywords of other bases
        super().__init_subclass__(**options)
        # The fields and __post_init__ of a subclass may differ from its parent's, so it must not inherit the fast path.
        cls._fast_replace_size = -1

    def __post_init__(self) -> None:
        metadata: object = self.metadata
        if not isinstance(metadata, MappingProxyType):
            object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    def replace(self, **changes: Any) -> Self:  # the values have the types of the named fields
        """Return a new context with some fields changed.

        Args:
            **changes: New values by field name.

        Returns:
            A context of the same class; this one does not change.

        Raises:
            TypeError: If the class has no field of that name.

        Example:
            >>> StepContext(sample=1).replace(smaple=2)
            Traceback (most recent call last):
                ...
            TypeError: StepContext has no field 'smaple'; its fields are: sample, metadata
        """
        values = self.__dict__ | changes
        # The union has as many entries as the class has fields only if every name is a field and the instance has no
        # other attributes (such as the values of cached properties).
        if len(values) != self._fast_replace_size:
            return self._replace_checked(changes)
        new = object.__new__(self.__class__)
        object.__setattr__(new, "__dict__", values)
        if "metadata" in changes:
            StepContext.__post_init__(new)
        return new

    def _replace_checked(self, changes: dict[str, Any]) -> Self:
        cls = type(self)
        names = [declared.name for declared in dataclasses.fields(cls)]
        unknown = [name for name in changes if name not in names]
        if unknown:
            raise TypeError(
                f"{cls.__name__} has no field {', '.join(map(repr, unknown))}; its fields are: {', '.join(names)}"
            )
        if _can_replace_fast(cls):
            cls._fast_replace_size = len(names)
        return dataclasses.replace(self, **changes)


def _can_replace_fast(cls: type[StepContext]) -> bool:
    """Whether copying the instance's `__dict__` does all that the constructor of `cls` would do."""
    decorated = "__init__" in vars(cls)
    all_in_constructor = all(declared.init for declared in dataclasses.fields(cls))
    has_slots = any(vars(base).get("__slots__") for base in cls.__mro__)
    return (
        decorated
        and all_in_constructor
        and not has_slots
        and cls.__post_init__ is StepContext.__post_init__
        and cls.__new__ is object.__new__
    )


@dataclass(slots=True)
class SampleResult(Generic[ContextT]):
    """The outcome of one sample. A run returns exactly one for each context that it was given.

    With an async boundary, the object changes after it has been returned: when the background ends, it replaces
    `output` or sets `error`.

    Args:
        sample: The `sample` of the context that went in.
        output: The final context: that of the foreground as soon as it has ended, then that of the background. None if
            a step failed or the sample was cancelled.
        error: What a step raised, or a `PipelineCancelled`; None if nothing went wrong.
        failed_at: The class name of the step that failed or, for a cancelled sample, of the step that would have come
            next.
        cause: For a failed branch, the first error of its children.
        index: The sample's position in the input of the run, from 0; -1 if this is not the result of a run. It is
            ignored when results are compared.

    Example:
        >>> SampleResult("question", None, ValueError("no answer"), "AgentStep").failed_at
        'AgentStep'
    """

    sample: Any  # the caller's own object, see StepContext.sample
    output: ContextT | None
    error: BaseException | None
    failed_at: str | None
    cause: BaseException | None = None
    index: int = field(default=-1, compare=False)  # the position is not part of the outcome


def record_failure(result: SampleResult[ContextT], error: BaseException, step_name: str | None) -> None:
    """Record in a result that a step failed. `error` is set last, so code that sees it sees the other fields too."""
    result.output = None
    result.failed_at = step_name
    if isinstance(error, BranchError):
        result.cause = error.failures[0]
    result.error = error
