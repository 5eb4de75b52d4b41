"""The samples of one run between their first and their last step.

Who calls what, and on which thread:

- the code that draws from the input calls `enter` (or `let_in`, `enter_async`) before it draws, one call at a time;
- the worker of a sample calls `end` if the sample ends in the foreground;
- the thread or loop that did the last background step calls `end_behind`, before it lets other samples pass. In
  `run_async`, the caller's loop calls `on_sample_end` and then releases the sample's slot, so that with a limit of one
  the next sample begins after `on_sample_end`;
- the code that stops or cancels the run calls `wake`, possibly in a signal handler, so `wake` takes no lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

from .caller import Caller
from .cancellation import CancellationToken
from .context import SampleResult, StepContext
from .errors import log_problem, value_text
from .threads import Event, uninterrupted

if TYPE_CHECKING:
    import asyncio

C = TypeVar("C", bound=StepContext)

logger = logging.getLogger(__name__)


class EndOfInput(Enum):
    """The type of `END`, which marks the end of the input and cannot be a context."""

    END = "end"


END: Final = EndOfInput.END


OnSample = Callable[[SampleResult[C]], None]


@final
class InPlace(Generic[C]):
    """A callback that is called where the sample ended, before others pass, even in `run_async`.

    It may block. It is meant for the bookkeeping of code that runs a pipeline; callbacks of users belong on their loop.

    Args:
        callback: Called with each result.
    """

    def __init__(self, callback: OnSample[C]) -> None:
        self._callback = callback

    def __call__(self, result: SampleResult[C]) -> None:
        """Call it."""
        self._callback(result)


@final
class InFlight(Generic[C]):
    """Counts and limits the samples of a run, and calls `on_sample_end` for each.

    Args:
        limit: How many samples may be between their first and their last step; None sets no limit.
        token: Cancels the run; its remaining samples are then drawn without waiting, to be reported.
        on_sample_end: Called with the result of each sample that has ended.

    Attributes:
        inside_background: How many samples of the run are in the background; protected by the background's lock.
        is_watched: Whether the ends of samples have to be reported here.
    """

    def __init__(self, limit: int | None, token: CancellationToken | None, on_sample_end: OnSample[C] | None) -> None:
        self.inside_background = 0
        self.is_watched = limit is not None or on_sample_end is not None
        self.limit = limit
        self._token = token
        self._is_stopped = False
        self._on_sample_end = on_sample_end
        self._is_in_place = isinstance(on_sample_end, InPlace)
        self._lock = threading.Lock()
        self._inside = 0
        self._ring: Callable[[], None] | None = None
        self._ending = threading.Lock()

    def let_in(self, source: Iterator[C]) -> Iterator[C]:
        """Yield the contexts of the input, each when there is room for it."""
        return source if self.limit is None else self._limited(source)

    def _limited(self, source: Iterator[C]) -> Iterator[C]:
        while True:
            is_used_up = seems_used_up(source)  # then the end can be reached without a free slot
            if not is_used_up:
                self.enter()
            if self._is_stopped:
                return
            ctx = next(source, END)
            if ctx is END:
                return
            if is_used_up:
                self.enter()
            yield ctx

    def enter(self) -> None:
        """Wait for a free slot, and take it. Only one thread at a time may call it."""
        while not self._take():
            room = Event()
            self._ring = room.set
            if not self._may_enter():  # checked again, because `wake` may have been called just before
                room.wait()
            self._ring = None

    async def enter_async(self) -> None:
        """Like `enter`, without blocking the loop."""
        import asyncio

        while not self._take():
            loop = asyncio.get_running_loop()
            room: asyncio.Future[None] = loop.create_future()
            self._ring = partial(_ring_loop, loop, room)
            if not self._may_enter():
                await room
            self._ring = None

    def stop(self) -> None:
        """Draw no more samples."""
        self._is_stopped = True
        self.wake()

    def wake(self) -> None:
        """Make the code that waits for a slot check again."""
        ring = self._ring
        if ring is not None:
            ring()

    def end(self, result: SampleResult[C], caller: Caller | None) -> None:
        """Count a sample that has ended in the foreground.

        Args:
            result: Its result.
            caller: Where `on_sample_end` is called; None calls it here.
        """
        if self._on_sample_end is not None:
            where = None if self._is_in_place else caller
            announce("on_sample_end", self._on_sample_end, result, self._ending, where)
        self._leave()

    def end_behind(self, result: SampleResult[C], caller: Caller | None) -> None:
        """Count a sample that has ended in the background. Neither raises nor waits for a loop."""
        if caller is None or self._on_sample_end is None or self._is_in_place:
            self._end_behind(result)
        else:
            caller.tell(partial(self._end_behind, result))

    def _end_behind(self, result: SampleResult[C]) -> None:
        try:
            if self._on_sample_end is not None:
                announce("on_sample_end", self._on_sample_end, result, self._ending, None)
        except BaseException as error:  # not re-raised: this thread serves other runs too
            message = "on_sample_end raised for sample %s; the run continues"
            log_problem(logger, logging.ERROR, message, value_text(result.sample), error=error)
        finally:
            self._leave()

    def _may_enter(self) -> bool:
        if self.limit is None or self._inside < self.limit:
            return True
        return self._is_stopped or (self._token is not None and self._token.is_cancelled)

    def _take(self) -> bool:
        with uninterrupted, self._lock:
            if not self._may_enter():
                return False
            self._inside += 1
            return True

    def _leave(self) -> None:
        if self.limit is not None:
            with uninterrupted, self._lock:
                self._inside -= 1
            self.wake()


def seems_used_up(source: object) -> bool:
    """Whether an iterator reports that nothing is left in it. Those of lists do; most others cannot."""
    return length_hint(source, 1) == 0


def announce(
    name: str, callback: OnSample[C], result: SampleResult[C], calling: threading.Lock, caller: Caller | None
) -> None:
    """Call a callback of the run; what it raises is logged.

    Args:
        name: The name of the callback, for the log.
        result: Its argument.
        calling: Acquired where the call is made and held during it, so that calls do not overlap.
        caller: Where it is called; None calls it here.
    """
    call = partial(_announce, name, callback, result, calling)
    if caller is None:
        call()
    else:
        caller.call(call)


def _announce(name: str, callback: OnSample[C], result: SampleResult[C], calling: threading.Lock) -> None:
    with calling:
        try:
            callback(result)
        except Exception as error:
            message = f"{name} raised for sample %s; the run continues"
            log_problem(logger, logging.ERROR, message, value_text(result.sample), error=error)


def _ring_loop(loop: asyncio.AbstractEventLoop, room: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_set, room)
    except RuntimeError:  # the loop is closed, so nothing waits on it
        return


def _set(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)
