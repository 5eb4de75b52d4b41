"""Calls of roles and clients that may be plain or asynchronous, from code that may be either.

Code that has to work both ways is written once, as a coroutine that is given a `Calling`. With `BLOCKING`, nothing
in it ever suspends: every call has returned when it is awaited. So `finished` can run it on the caller's own thread,
without an event loop. With `ON_LOOP` it is awaited, and whatever would block is called on another thread.

Invariant: such a coroutine awaits a `Calling`, or another such coroutine, and nothing else.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Literal, Protocol, TypeVar, cast, final

__all__ = [
    "BLOCKING",
    "ON_LOOP",
    "Awaited",
    "Calling",
    "awaited_where",
    "finished",
    "is_async_method",
    "own_twin",
    "within_seconds",
]

T = TypeVar("T")
Awaited = Literal["never", "on_loop", "always"]
"""When a step that calls a role is awaited; see `ace.pipeline.StepProtocol`."""


class Calling(Protocol):
    """How a coroutine that works both ways calls code outside it."""

    async def method(self, owner: object, name: str, *args: object, **kwargs: object) -> Any:
        """Call a method of a role or a client, plain or asynchronous, and return what it gives in the end.

        Args:
            owner: The role or client.
            name: The method. Its asynchronous twin has the same name with an `a` before it.
            *args: Its arguments.
            **kwargs: Its keyword arguments.
        """

    async def function(self, function: Callable[[], T]) -> T:
        """Call a plain function that takes a moment, such as one that writes to a disk.

        An event loop has few threads for all such functions together; what waits for a server is not one of them.

        Args:
            function: The function.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait.

        Args:
            seconds: How long.
        """


@final
class _Blocking:
    """Everything is done on the caller's thread before it is awaited."""

    async def method(self, owner: object, name: str, *args: object, **kwargs: object) -> Any:
        returned = getattr(owner, name)(*args, **kwargs)
        return _awaited_elsewhere(returned) if _is_awaitable(returned) else returned

    async def function(self, function: Callable[[], T]) -> T:
        return function()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  # no loop runs this


@final
class _OnLoop:
    """The running loop awaits; what is plain is called on a kept thread."""

    async def method(self, owner: object, name: str, *args: object, **kwargs: object) -> Any:
        twin = own_twin(owner, name)
        bound = getattr(owner, name) if twin is None else twin
        if twin is not None or is_async_method(owner, name):
            returned = bound(*args, **kwargs)
        else:
            from ace.pipeline.event_loop import call_in_thread

            returned = await call_in_thread(functools.partial(bound, *args, **kwargs))
        return await returned if _is_awaitable(returned) else returned

    async def function(self, function: Callable[[], T]) -> T:
        import asyncio  # a caller that gets here has loaded it; importing this module alone must not

        return await asyncio.to_thread(function)

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


BLOCKING: Final[Calling] = _Blocking()
"""For plain code."""
ON_LOOP: Final[Calling] = _OnLoop()
"""For asynchronous code."""


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, on this thread, and return its value.

    Args:
        coroutine: One that works both ways and was given `BLOCKING`.

    Raises:
        RuntimeError: It has suspended.

    Example:
        >>> import asyncio
        >>> async def both_ways(calling):
        ...     return await calling.function(lambda: 4)
        >>> finished(both_ways(BLOCKING)), asyncio.run(both_ways(ON_LOOP))
        (4, 4)
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} must be awaited; it cannot run without an event loop")


def is_async_method(owner: object, name: str) -> bool:
    """Tell whether a method is declared `async def`.

    Args:
        owner: The role or client.
        name: The method.
    """
    method = getattr(owner, name, None)
    return inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(type(method).__call__)


def awaited_where(owner: object, name: str) -> Awaited:
    """Say when a step that calls this method is awaited.

    Args:
        owner: The role; None where there is none.
        name: Its plain method, which may be declared `async def`.

    Example:
        >>> class Judge:
        ...     async def evaluate(self, sample, agent_output): ...
        >>> awaited_where(Judge(), "evaluate"), awaited_where(None, "evaluate")
        ('always', 'never')
    """
    if is_async_method(owner, name):
        return "always"
    return "never" if own_twin(owner, name) is None else "on_loop"


def own_twin(owner: object, name: str) -> Callable[..., Awaitable[Any]] | None:
    """Return the asynchronous twin of a method, such as `acomplete` of `complete`; None where there is none.

    A class that overrides only the plain method has no twin: the inherited one would not do what the class does.

    Args:
        owner: The role or client.
        name: The plain method.
    """
    twin = f"a{name}"
    for names in (getattr(owner, "__dict__", {}), *(cls.__dict__ for cls in type(owner).__mro__)):
        if twin in names:
            return cast("Callable[..., Awaitable[Any]]", getattr(owner, twin))
        if name in names:
            return None
    return None


def _is_awaitable(value: object) -> bool:
    """Tell whether a value can be awaited. `inspect.isawaitable` takes ten times as long, on every call of a role."""
    return hasattr(type(value), "__await__")


def _awaited_elsewhere(awaitable: Awaitable[T]) -> T:
    """Await something from plain code, on the loop that the pipeline engine keeps for this."""
    from ace.pipeline.event_loop import engine_loop

    async def awaited() -> T:
        return await awaitable

    return engine_loop.run(awaited())


def within_seconds(seconds: float | None, call: Callable[[], T]) -> T:
    """Return what a plain call returns, if it does so in time.

    The call is made on a kept thread. One that comes late is left to itself there, and its outcome is dropped: a
    library that is reading from a socket cannot be interrupted from outside.

    Args:
        seconds: How long it may take; None for as long as it takes.
        call: The call. It sees the caller's context variables.

    Raises:
        TimeoutError: The time is over.

    Example:
        >>> within_seconds(10.0, lambda: 4)
        4
    """
    if seconds is None:
        return call()
    from ace.pipeline.threads import threads

    done = threading.Event()
    context = contextvars.copy_context()
    values: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            values.append(context.run(call))
        except BaseException as error:
            errors.append(error)

    threads.start(work, done.set)
    if not done.wait(seconds):
        raise TimeoutError(f"there was no result within {seconds:g} s")
    if errors:
        raise errors[0]
    return values[0]
