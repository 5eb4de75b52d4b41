"""The input of a run whose workers are tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Generic, TypeVar, final

from .context import StepContext
from .end_of_input import END, EndOfInput
from .event_loop import call_in_thread
from .in_flight import seems_used_up
from .run import Run

C = TypeVar("C", bound=StepContext)


@final
class Source(Generic[C]):
    """Hands out contexts one at a time, each with its place in the input and its number in the run's order.

    A list or a tuple never blocks, so it can be asked at once, unless the run limits how many samples are in flight.
    Any other iterable is asked on a thread.

    Args:
        contexts: The input, plain or asynchronous.
        run: The run. When it is stopped, nothing is drawn any more.
    """

    def __init__(self, contexts: Iterable[C] | AsyncIterable[C], run: Run[C]) -> None:
        never_blocks = isinstance(contexts, (list, tuple))
        self.is_at_hand = never_blocks and run.in_flight.limit is None
        self._limit = None if run.in_flight.limit is None else run.in_flight
        self._iterator: Iterator[C] | AsyncIterator[C]
        self._at_hand: Iterator[C] = iter(())
        if isinstance(contexts, AsyncIterable):
            self._iterator = iterator = aiter(contexts)
            self._ask: Callable[[], Awaitable[C | EndOfInput]] = lambda: anext(iterator, END)
        else:
            self._iterator = self._at_hand = iter(contexts)
            draw = partial(next, self._at_hand, END)
            self._ask = partial(_at_once, draw) if never_blocks else partial(call_in_thread, draw)
        self._run = run
        self._drawing = asyncio.Lock()
        self._drawn = 0

    def draw_at_once(self) -> tuple[int, int, C] | None:
        """Return the next (place, number, context) of what is at hand, or None at the end."""
        return None if self._run.stopped else self._numbered(next(self._at_hand, END))

    async def draw(self) -> tuple[int, int, C] | None:
        """Return the next (place, number, context), or None at the end; wait while there is no room for it."""
        async with self._drawing:
            if self._limit is not None and not seems_used_up(self._iterator):
                await self._limit.enter_async()
            return None if self._run.stopped else self._numbered(await self._ask())

    def _numbered(self, ctx: C | EndOfInput) -> tuple[int, int, C] | None:
        if ctx is END:
            self._run.stop()
            return None
        place = self._drawn
        self._drawn += 1
        return place, self._run.number(), ctx


async def _at_once(draw: Callable[[], C | EndOfInput]) -> C | EndOfInput:
    return draw()
