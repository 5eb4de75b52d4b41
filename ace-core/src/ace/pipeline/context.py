"""The immutable context that a sample carries from step to step."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar


@dataclass(frozen=True)
class StepContext:
    """What one sample carries through a pipeline.

    Applications subclass it for fields of their own. Data that only one integration needs goes into
    `metadata`.

    Args:
        sample: The input that the run was given, of any type.
        metadata: Further data by name. A plain dict is copied and wrapped, so that it cannot change any more.

    Example:
        >>> ctx = StepContext(sample="What is ACE?", metadata={"source": "faq"})
        >>> ctx.replace(sample="What is a skill?").sample
        'What is a skill?'
        >>> ctx.metadata["source"]
        'faq'
    """

    sample: Any  # any object of the caller's; the engine only hands it on
    metadata: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    _fast_replace_size: ClassVar[int] = -1

    def __init_subclass__(cls, **options: Any) -> None:  # options: class keywords of other bases
        super().__init_subclass__(**options)
        # Fields and __post_init__ of a subclass differ from its parent's: it must not inherit the fast path.
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
            A context of the same class; this one stays as it is.

        Raises:
            TypeError: If the class has no field of that name.

        Example:
            >>> StepContext(sample=1).replace(smaple=2)
            Traceback (most recent call last):
                ...
            TypeError: StepContext has no field 'smaple'; its fields are: sample, metadata
        """
        values = self.__dict__ | changes
        # The union is as large as the class has fields only if every name is known and the instance carries
        # nothing else (such as the values of cached properties).
        if len(values) != self._fast_replace_size:
            return self._replace_checked(changes)
        new = object.__new__(self.__class__)
        object.__setattr__(new, "__dict__", values)
        if "metadata" in changes:
            StepContext.__post_init__(new)
        return new

    def _replace_checked(self, changes: dict[str, Any]) -> Self:
        cls = type(self)
        names = [each.name for each in dataclasses.fields(cls)]
        unknown = [name for name in changes if name not in names]
        if unknown:
            raise TypeError(
                f"{cls.__name__} has no field {', '.join(map(repr, unknown))}; its fields are: {', '.join(names)}"
            )
        if _can_replace_fast(cls):
            cls._fast_replace_size = len(names)
        return dataclasses.replace(self, **changes)


ContextT = TypeVar("ContextT", bound=StepContext)


def _can_replace_fast(cls: type[StepContext]) -> bool:
    """Whether copying the instance's `__dict__` does all that the constructor of `cls` would do."""
    decorated = "__init__" in vars(cls)
    all_in_constructor = all(each.init for each in dataclasses.fields(cls))
    has_slots = any(vars(base).get("__slots__") for base in cls.__mro__)
    return (
        decorated
        and all_in_constructor
        and not has_slots
        and cls.__post_init__ is StepContext.__post_init__
        and cls.__new__ is object.__new__
    )
