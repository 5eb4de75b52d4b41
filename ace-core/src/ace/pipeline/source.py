"""The input of a run whose workers are tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Generic, TypeVar, final

from .context import StepContext
from .end_of_input import END, EndOfInput
from .event_loop import call_in_thread
from .run import Run

C = TypeVar("C", bound=StepContext)


@final
class Source(Generic[C]):
    """Hands out contexts one at a time, each with its place in the input and its number in the run's order.

    A list or a tuple never blocks, so it can be asked at once. Any other iterable is asked on a thread.

    Args:
        contexts: The input, plain or asynchronous.
        run: The run. When it is stopped, nothing is drawn any more.
    """

    def __init__(self, contexts: Iterable[C] | AsyncIterable[C], run: Run[C]) -> None:
        self.is_at_hand = isinstance(contexts, (list, tuple))
        self._iterator: Iterator[C] = iter(contexts) if isinstance(contexts, (list, tuple)) else iter(())
        self._ask = _asker(contexts)
        self._run = run
        self._drawing = asyncio.Lock()
        self._drawn = 0

    def draw_at_once(self) -> tuple[int, int, C] | None:
        """Return the next (place, number, context) of what is at hand, or None at the end."""
        return None if self._run.stopped else self._numbered(next(self._iterator, END))

    async def draw(self) -> tuple[int, int, C] | None:
        """Return the next (place, number, context), or None at the end."""
        async with self._drawing:
            return None if self._run.stopped else self._numbered(await self._ask())

    def _numbered(self, ctx: C | EndOfInput) -> tuple[int, int, C] | None:
        if ctx is END:
            self._run.stop()
            return None
        place = self._drawn
        self._drawn += 1
        return place, self._run.number(), ctx


def _asker(contexts: Iterable[C] | AsyncIterable[C]) -> Callable[[], Awaitable[C | EndOfInput]]:
    if isinstance(contexts, AsyncIterable):
        source = aiter(contexts)
        return lambda: anext(source, END)
    return partial(call_in_thread, partial(next, iter(contexts), END))
