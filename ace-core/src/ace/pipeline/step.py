"""What a step must look like."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from .context import StepContext

if TYPE_CHECKING:
    from .surroundings import Surroundings

StepContextT = TypeVar("StepContextT", bound=StepContext)


@runtime_checkable
class StepProtocol(Protocol[StepContextT]):
    """Any object that declares the fields it reads and writes, and turns a context into a context.

    Nothing has to be inherited. `__call__` may be plain or `async`. Four further class attributes are optional:
    `async_boundary` (False), `max_workers` (1), `lane` (None) and `lane_key` (None). A step that can work both ways
    has a method `async def __call_async__(self, ctx)` besides `__call__`, and an attribute `awaited` that says when the
    engine awaits it: "always", or "on_loop", which is where an event loop runs the foreground anyway.

    Example:
        >>> class Shout:
        ...     requires = {"sample"}
        ...     provides = {"sample"}
        ...     def __call__(self, ctx):
        ...         return ctx.replace(sample=ctx.sample.upper())
        >>> isinstance(Shout(), StepProtocol)
        True
    """

    @property
    def requires(self) -> Collection[str]:
        """Names of the context fields that the step reads."""

    @property
    def provides(self) -> Collection[str]:
        """Names of the context fields that the step writes."""

    def __call__(self, ctx: StepContextT) -> StepContextT | Awaitable[StepContextT]:
        """Do the work and return the new context."""


@runtime_checkable
class CompositeStep(Protocol[StepContextT]):
    """A step that is made of steps: a nested pipeline or a branch.

    The engine asks it what lies inside, and awaits it where one of its inner steps is asynchronous.
    """

    @property
    def max_workers(self) -> int:
        """How many samples may be inside it at once in the background."""

    @property
    def has_async_steps(self) -> bool:
        """Whether an inner step, at any depth, is asynchronous."""

    @property
    def has_async_boundary(self) -> bool:
        """Whether an inner step, at any depth, declares an async boundary."""

    @property
    def has_lane(self) -> bool:
        """Whether an inner step, at any depth, names a lane."""

    @property
    def has_hooks(self) -> bool:
        """Whether it, or an inner pipeline at any depth, has hooks."""

    async def __call_async__(self, ctx: StepContextT) -> StepContextT:
        """The asynchronous twin of calling the step."""
        ...

    def call_within(self, surroundings: Surroundings, ctx: StepContextT) -> StepContextT:
        """Call the step where these are its surroundings, which limit its inner steps.

        That a context has what the step requires is checked by the outermost pipeline, which knows what its own steps
        provide.
        """
        ...

    async def call_async_within(self, surroundings: Surroundings, ctx: StepContextT) -> StepContextT:
        """The asynchronous twin of `call_within`."""
        ...
