"""Calling hooks and callbacks where the caller of a run is, independent of the thread that a step runs on.

In `run_async` and `astream` they are called on the caller's event loop (`CallerLoop`). In `run`, a worker calls them on
its own thread. Only if its steps run elsewhere (in a lane, or because an event loop runs in the caller's thread) does
the worker make the calls that they request while it waits for them (`CallerThread`).

Invariants:

- `call` returns when the call has been made, so the next step of that sample has not begun. It blocks, so it is called
  on the engine's threads only, never on an event loop: coroutines use `RelayedHooks.notify`.
- The thread that makes a requested call never waits for a lock that the requesting thread may hold.
- What a call raises is raised where it was requested, so that a `SystemExit` ends the run and not the loop.
- `tell` never waits: a sample that ends in the background must not depend on a loop that may have been stopped.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, final

from .threads import Event, adopt, uninterrupted

if TYPE_CHECKING:
    import asyncio

Call = Callable[[], None]

_SECONDS_UNTIL_A_LOOP_IS_CHECKED = 1.0


class Caller(Protocol):
    """Makes calls on the caller's thread or loop."""

    @property
    def is_here(self) -> bool:
        """Whether this is the caller's thread, so that a call can be made directly."""

    def call(self, call: Call) -> None:
        """Request a call with a copy of the context variables of this thread, and wait for it.

        Raises:
            BaseException: What the call raised.
        """

    def tell(self, call: Call) -> None:
        """Request a call, now or soon, without waiting for it. It must not raise."""


@final
class _Request:
    """A call that another thread is asked to make."""

    __slots__ = ("_call", "_error", "_variables", "is_made", "made")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._variables = contextvars.copy_context()
        self._error: BaseException | None = None
        self.is_made = False
        self.made = Event()

    def make(self) -> None:
        """Make the call, on the caller's thread."""
        try:
            self._variables.run(self._call)
        except BaseException as error:
            self._error = error
        self.is_made = True
        self.made.set()

    def finish(self) -> None:
        """Adopt the variables that the call has set and raise its error, on the requesting thread."""
        adopt(self._variables)
        if self._error is not None:
            raise self._error


@final
class CallerThread:
    """The current thread, which makes calls while it waits for work that runs on another thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._requests: deque[_Request] = deque()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._has_ended = False

    @property
    def is_here(self) -> bool:
        """Whether this is the thread."""
        return threading.get_ident() == self._thread

    def call(self, call: Call) -> None:
        """Make a call on the waiting thread."""
        if self.is_here:
            call()
            return
        request = _Request(call)
        self._requests.append(request)
        self._ring()
        request.made.wait()
        request.finish()

    def tell(self, call: Call) -> None:
        """Make the call here: the caller's thread may not be waiting any more."""
        call()

    def end(self) -> None:
        """Signal that the work is done."""
        self._has_ended = True
        self._ring()

    def wait(self) -> None:
        """Make calls until the work is done. After Ctrl-C it can be called again."""
        while True:
            while self._requests:
                request = self._requests[0]  # stays in the queue until made, because Ctrl-C may come at any moment
                if not request.is_made:
                    request.make()
                with uninterrupted:
                    self._requests.popleft()
            if self._has_ended:
                return
            self._bell.acquire()

    def _ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:  # it is already released
            return


@final
class CallerLoop:
    """The event loop that runs in the current thread.

    Args:
        loops_with_calls: Contains this object while the loop has calls to make. The code that waits for the background
            makes them if the loop no longer can.
    """

    def __init__(self, loops_with_calls: set[CallerLoop]) -> None:
        import asyncio

        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._loops_with_calls = loops_with_calls
        self._calls: deque[Call] = deque()

    @property
    def is_here(self) -> bool:
        """Whether this is the loop's thread."""
        return threading.get_ident() == self._thread

    def call(self, call: Call) -> None:
        """Have the loop make a call."""
        if self.is_here:
            call()
            return
        request = _Request(call)
        try:
            self._loop.call_soon_threadsafe(request.make)
        except RuntimeError:  # it is closed
            call()
            return
        while not request.made.wait_for(_SECONDS_UNTIL_A_LOOP_IS_CHECKED):
            if self._loop.is_closed() and not request.is_made:  # the loop was closed with the request in it
                call()
                return
        request.finish()

    def tell(self, call: Call) -> None:
        """Make a call on the loop or, if it no longer runs, on this thread."""
        self._calls.append(call)
        self._loops_with_calls.add(self)
        if self._loop.is_running():
            try:
                self._loop.call_soon_threadsafe(self._make_calls)
            except RuntimeError:  # it has just been closed
                self._make_calls()
        else:
            self._make_calls()

    def make_late_calls(self) -> None:
        """Make the calls that the loop will not make, or not until this thread returns to it."""
        if self.is_here or not self._loop.is_running():
            self._make_calls()

    def _make_calls(self) -> None:
        while self._calls:
            try:
                call = self._calls.popleft()
            except IndexError:  # another thread has made it
                return
            call()
        self._loops_with_calls.discard(self)
        if self._calls:  # a thread added it just now, and had put this loop into the set before it was discarded
            self._loops_with_calls.add(self)


caller_var: ContextVar[Caller | None] = ContextVar("ace_pipeline_caller", default=None)
"""Where nested pipelines in the foreground of the current run call their hooks; None is the thread of the step."""
