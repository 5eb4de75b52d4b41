"""`Calling.each`: code that works both ways does several things at once."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Literal

import pytest

from ace.calls.calling import BLOCKING, ON_LOOP, Calling, Work, finished

Way = Literal["plain", "asynchronous"]
WAYS: list[Way] = ["plain", "asynchronous"]
_named: contextvars.ContextVar[str] = contextvars.ContextVar("named", default="nothing")


class Doorman:
    """Counts who is inside, and lets nobody out before a number of visitors has met."""

    def __init__(self, meeting: int) -> None:
        self.inside = self.most = self.begun = 0
        self._lock = threading.Lock()
        self._met = threading.Barrier(meeting)

    def visit(self, name: str) -> str:
        with self._lock:
            self.inside += 1
            self.begun += 1
            self.most = max(self.most, self.inside)
        self._met.wait(timeout=60)
        seen = _named.get()
        _named.set(name)
        with self._lock:
            self.inside -= 1
        return f"{name} after {seen}"

    async def avisit(self, name: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(None, contextvars.copy_context().run, self.visit, name)


def results_of(way: Way, doorman: Doorman, names: Sequence[str], at_once: int) -> list[str]:
    async def visits(calling: Calling) -> list[str]:
        def visit(name: str) -> Coroutine[Any, Any, str]:
            return calling.method(doorman, "visit", name)

        works: list[Work[str]] = [partial(visit, name) for name in names]
        return await calling.each(works, at_once)

    return finished(visits(BLOCKING)) if way == "plain" else asyncio.run(visits(ON_LOOP))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_as_many_as_allowed_run_at_once_and_the_results_are_in_order(way: Way, at_once: int) -> None:
    doorman = Doorman(at_once)
    names = [f"visitor {number}" for number in range(6)]
    token = _named.set("the caller")
    try:
        results = results_of(way, doorman, names, at_once)
    finally:
        _named.reset(token)
    assert [result.partition(" after ")[0] for result in results] == names
    assert (doorman.most, doorman.begun) == (at_once, 6)
    if at_once > 1:
        assert {result.partition(" after ")[2] for result in results} == {"the caller"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at_once", [1, 3])
def test_after_an_error_nothing_begins(way: Way, at_once: int) -> None:
    class Failing(Doorman):
        def visit(self, name: str) -> str:
            super().visit(name)
            raise LookupError(name)

    doorman = Failing(at_once)
    with pytest.raises(LookupError):
        results_of(way, doorman, [str(number) for number in range(9)], at_once)
    assert doorman.begun == at_once


def test_nothing_begins_after_a_cancellation_that_all_calls_lose() -> None:
    begun: list[int] = []

    async def main() -> None:
        release, both = asyncio.Event(), asyncio.Event()

        async def call(number: int) -> None:
            begun.append(number)
            if len(begun) == 2:
                both.set()
            try:
                await release.wait()
            except asyncio.CancelledError:  # as asyncio.wait_for of Python 3.11 does, if the result has just come
                return

        task = asyncio.ensure_future(ON_LOOP.each([partial(call, number) for number in range(6)], 2))
        await both.wait()
        task.cancel()
        release.set()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    assert begun == [0, 1]


def test_ctrl_c_in_one_call_comes_before_the_error_of_another_one() -> None:
    both = threading.Barrier(2)

    async def call(error: BaseException) -> None:
        both.wait(timeout=60)
        raise error

    with pytest.raises(KeyboardInterrupt):
        finished(BLOCKING.each([partial(call, LookupError()), partial(call, KeyboardInterrupt())], 2))


@pytest.mark.parametrize("way", WAYS)
def test_nothing_to_do(way: Way) -> None:
    assert results_of(way, Doorman(1), [], 3) == []
