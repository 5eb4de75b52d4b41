"""Limits on how many pieces of background work run at once, and the queue of those that wait for a slot.

Who calls what, and on which thread: `submit` is called by the thread or loop that has done the previous stage, and
returns at once; the work is done on a cached thread or on the engine's loop. `enter` blocks the thread of an inner
step, `enter_async` waits on its loop. The code that releases a slot passes it to the next waiter, on its own thread.

Invariants:

- At most `limit` slots are taken, over all pipelines of the process that share the limiter.
- A released slot is passed directly to the next waiter, so it cannot be lost or taken by another one in between.
- A slot is held only by work that waits for no other slot.
- If no thread can be started, the current one does the work.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final
from weakref import WeakSet, WeakValueDictionary

from .context import StepContext
from .step import ExecutionMode, PlannedStep
from .threads import Work, threads

if TYPE_CHECKING:
    import asyncio


C = TypeVar("C", bound=StepContext)


@final
class Waiter:
    """Code that waits for a slot and then does its work itself.

    Args:
        tell: Called when it has been given a slot; must not raise.
    """

    def __init__(self, tell: Callable[[], object]) -> None:
        self.tell = tell
        self.has_slot = False
        self.is_withdrawn = False


@final
@dataclass(frozen=True, slots=True, eq=False)
class LoopWork:
    """Work that is awaited on the engine's loop."""

    run: Callable[[Callable[[Work], None]], Coroutine[Any, Any, None]]
    """Does the work, and passes to its argument what to call when its task has ended. Neither must raise."""

    context: Context
    """The context variables in which it runs."""

    refuse: Callable[[BaseException], None]
    """Called instead if the loop has to be started and no thread can be started for it. It must not raise."""


AnyWork: TypeAlias = Work | LoopWork


@final
class Limiter:
    """Does work, at most `limit` pieces at once: plain work on cached threads, other work on the engine's loop.

    It uses threads only while it has plain work, which must not raise. Code that does its own work calls `enter` and
    `leave` instead, which takes a slot in the same way. Runs take turns in the order in which their work arrives; among
    the work of one run, the earliest sample comes first.

    Args:
        limit: The number of slots.
        owner: What the limit belongs to; kept alive as long as the limiter.
    """

    def __init__(self, limit: int, owner: object = None) -> None:
        self.limit = limit
        self.owner = owner
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        """Start with all slots free. A forked child calls it too, because its parent does the work that was waiting."""
        self._lock = threading.Lock()
        self._taken = 0
        self._turns: deque[object] = deque()  # for each waiting piece of work, its run
        self._waiting: dict[object, list[tuple[int, int, AnyWork | Waiter]]] = {}  # by run, each a heap
        self._came = itertools.count()
        self._servers: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds its tasks only weakly

    def submit(self, work: AnyWork, run: object = None, index: int = 0) -> None:
        """Do `work` as soon as it gets a slot.

        Args:
            run: Identifies the run that `index` counts in.
            index: The number of the sample in the order of the run.
        """
        if self._take_or_wait(work, run, index):
            self._start(work)

    def enter(self) -> bool:
        """Take a slot, and wait until one is free.

        Returns:
            Whether a slot was taken, which must be released with `leave`. A thread that is doing work of this limiter
            takes none: if no further thread can be started, it does what follows its work while it holds the slot.
        """
        if threading.get_ident() in self._servers:
            return False
        if self._take():
            return True
        here = threading.Event()
        turn = Waiter(here.set)
        if not self._take_or_wait(turn):
            try:
                here.wait()
            except BaseException:
                if self._withdraw(turn):
                    self.leave()
                raise
        return True

    async def enter_async(self) -> None:
        """Like `enter`, without blocking the loop; a slot is always taken."""
        import asyncio

        if self._take():
            return
        loop = asyncio.get_running_loop()
        here: asyncio.Future[None] = loop.create_future()
        turn = Waiter(lambda: loop.call_soon_threadsafe(_set, here))
        if not self._take_or_wait(turn):
            try:
                await here
            except BaseException:
                if self._withdraw(turn):
                    self.leave()
                raise

    def leave(self) -> None:
        """Release a slot."""
        self._start(self._pass_on())

    def _start(self, following: AnyWork | Waiter | None) -> None:
        work = self._hand_over(following)
        if work is None:
            return
        try:
            threads.start(lambda: self._serve(work))
        except RuntimeError:  # no thread can be started: the current one does the work
            self._serve(work)

    def _hand_over(self, following: AnyWork | Waiter | None) -> Work | None:
        """Pass the slot on, if the work needs no thread. Otherwise return the work."""
        if isinstance(following, Waiter):
            following.tell()
            return None
        if not isinstance(following, LoopWork):
            return following
        from .event_loop import engine_loop

        try:
            engine_loop.loop.call_soon_threadsafe(self._begin, following)
        except RuntimeError as error:
            return partial(following.refuse, error)
        return None

    def _serve(self, work: Work) -> None:
        ident = threading.get_ident()
        is_outermost = ident not in self._servers
        self._servers.add(ident)
        following: Work | None = work
        while following is not None:
            following()
            following = self._hand_over(self._pass_on())
        if is_outermost:
            self._servers.discard(ident)

    def _begin(self, work: LoopWork) -> None:
        import asyncio

        ends: list[Work] = []  # not the task's return value, which is lost if a step cancels its own task
        task = asyncio.get_running_loop().create_task(work.run(ends.append), context=work.context)
        self._tasks.add(task)
        task.add_done_callback(partial(self._continue_after, ends))

    def _continue_after(self, ends: list[Work], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        for end in ends:
            end()
        following = self._pass_on()
        if isinstance(following, LoopWork):
            self._begin(following)
        else:
            self._start(following)

    def _take(self) -> bool:
        """Take a slot if one is free. Returns whether one was."""
        with self._lock:
            if self._taken >= self.limit:
                return False
            self._taken += 1
            return True

    def _take_or_wait(self, waiting: AnyWork | Waiter, run: object = None, index: int = 0) -> bool:
        """Take a slot, or join the queue. Returns whether a slot was free."""
        with self._lock:
            if self._taken < self.limit:
                self._taken += 1
                return True
            self._turns.append(run)
            queue = self._waiting.get(run)
            if queue is None:
                queue = self._waiting[run] = []
            heappush(queue, (index, next(self._came), waiting))
            return False

    def _pass_on(self) -> AnyWork | Waiter | None:
        """Pass a released slot to the next in the queue, and return that."""
        with self._lock:
            while self._turns:
                run = self._turns.popleft()
                queue = self._waiting[run]
                _, _, waiting = heappop(queue)
                if not queue:
                    del self._waiting[run]
                if not isinstance(waiting, Waiter):
                    return waiting
                if not waiting.is_withdrawn:
                    waiting.has_slot = True
                    return waiting
            self._taken -= 1
            return None

    def _withdraw(self, turn: Waiter) -> bool:
        """Withdraw a waiter from the queue. Returns whether it already has a slot, which must be released."""
        with self._lock:
            turn.is_withdrawn = True
            return turn.has_slot


def _set(here: asyncio.Future[None]) -> None:
    if not here.done():
        here.set_result(None)


_shared: WeakValueDictionary[int, Limiter] = WeakValueDictionary()
_shared_lock = threading.Lock()


def limiter_for(step: PlannedStep[Any]) -> Limiter:
    """Return the limiter of a step: that of its class, or its own if the instance sets `max_workers`.

    Two pipelines with steps of one class get the same limiter, so the limit holds for the whole process.
    """
    owner = step.limit_owner
    with _shared_lock:
        limiter = _shared.get(id(owner))
        if limiter is None:
            limiter = _shared[id(owner)] = Limiter(step.max_workers, owner)
        limiter.limit = step.max_workers
        return limiter


def _forget_lock() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)


def limited(step: PlannedStep[C], mode: ExecutionMode) -> PlannedStep[C]:
    """Return an inner step as it is called in a mode; in the background it takes a slot of its class for each call.

    A slot is held only inside the step, where the engine waits for no other slot, so waiters can never wait for each
    other. For the same reason a composite takes no slot; its inner steps do.
    """
    if mode is not ExecutionMode.BACKGROUND or step.composite is not None:
        return step

    limiter = limiter_for(step)
    if step.call_async is not None:
        return dataclasses.replace(step, call_async=_limited_call_async(step.call_async, limiter))
    return dataclasses.replace(step, call=_limited_call(step.call, limiter))


def _limited_call(call: Callable[[C], C], limiter: Limiter) -> Callable[[C], C]:
    def limited_call(ctx: C) -> C:
        has_slot = limiter.enter()
        try:
            return call(ctx)
        finally:
            if has_slot:
                limiter.leave()

    return limited_call


def _limited_call_async(call: Callable[[C], Awaitable[C]], limiter: Limiter) -> Callable[[C], Awaitable[C]]:
    async def limited_call(ctx: C) -> C:
        await limiter.enter_async()
        try:
            return await call(ctx)
        finally:
            limiter.leave()

    return limited_call


_all: WeakSet[Limiter] = WeakSet()


def _forget_all() -> None:
    for limiter in list(_all):
        limiter._forget()


os.register_at_fork(after_in_child=_forget_all)
