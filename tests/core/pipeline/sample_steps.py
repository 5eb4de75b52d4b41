"""Steps and contexts that the tests of the engine share."""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ace.pipeline import StepContext
from ace.pipeline.threads import threads

StepT = TypeVar("StepT", bound=type)


@dataclass(frozen=True)
class PageContext(StepContext):
    """A page on its way through a pipeline; `sample` is its number."""

    text: str | None = None
    title: str | None = None
    words: int | None = None


def engine_threads() -> list[str]:
    """The names of the engine's threads, without the event loop and its pool, which serve the whole process."""
    names = [thread.name for thread in threading.enumerate()]
    kept = ("ace-pipeline-loop", "ace-pipeline-pool")
    return [name for name in names if name.startswith("ace-pipeline-") and not name.startswith(kept)]


def busy_threads() -> int:
    """How many threads the engine has, after ending those that are idle."""
    threads.release()
    return len(engine_threads())


def pages(count: int) -> list[PageContext]:
    return [PageContext(sample=number) for number in range(count)]


def endless() -> Iterator[PageContext]:
    return (PageContext(sample=number) for number in itertools.count())


class Read:
    """Provides the text."""

    requires = frozenset({"sample"})
    provides = frozenset({"text"})

    def __call__(self, ctx: PageContext) -> PageContext:
        return ctx.replace(text=f"page {ctx.sample}")


class ReadAsync:
    """Provides the text, awaiting something on the way."""

    requires = frozenset({"sample"})
    provides = frozenset({"text"})

    async def __call__(self, ctx: PageContext) -> PageContext:
        await asyncio.sleep(0)
        return ctx.replace(text=f"page {ctx.sample}")


class FindTitle:
    """Needs the text, provides the title."""

    requires = frozenset({"text"})
    provides = frozenset({"title"})

    def __call__(self, ctx: PageContext) -> PageContext:
        assert ctx.text is not None
        return ctx.replace(title=ctx.text.title())


class CountWords:
    """Needs the text, provides the number of its words."""

    requires = frozenset({"text"})
    provides = frozenset({"words"})

    def __call__(self, ctx: PageContext) -> PageContext:
        assert ctx.text is not None
        return ctx.replace(words=len(ctx.text.split()))


class Do:
    """Calls a function with the sample, and leaves the context as it is."""

    requires = frozenset({"sample"})
    provides: frozenset[str] = frozenset()
    max_workers = 1
    lane_key: object = None

    def __init__(self, action: Callable[[int], object] = lambda number: None) -> None:
        self.action = action

    def __call__(self, ctx: PageContext) -> PageContext:
        self.action(ctx.sample)
        return ctx


class DoAsync:
    """The asynchronous twin of `Do`; the action may return something to await."""

    requires = frozenset({"sample"})
    provides: frozenset[str] = frozenset()
    lane_key: object = None

    def __init__(self, action: Callable[[int], object] = lambda number: None) -> None:
        self.action = action

    async def __call__(self, ctx: PageContext) -> PageContext:
        await asyncio.sleep(0)
        outcome = self.action(ctx.sample)
        if asyncio.iscoroutine(outcome):
            await outcome
        return ctx


AnyDo = type[Do] | type[DoAsync]
AnyRead = type[Read] | type[ReadAsync]


def variant(
    base: StepT,
    name: str = "",
    *,
    boundary: bool = False,
    max_workers: int = 1,
    lane: str | None = None,
) -> StepT:
    """Return a new subclass of a step class, with declarations of its own and so with a limit of its own."""
    members = {"async_boundary": boundary, "max_workers": max_workers, "lane": lane}
    return type(name or base.__name__, (base,), members)  # type: ignore[return-value]  # type() forgets the base


class Gate:
    """Holds samples inside a step until it is opened, and knows how many are inside."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._changed = threading.Condition()
        self.inside = 0
        self.most_inside = 0
        self.passed: list[int] = []

    def __call__(self, number: int) -> None:
        with self._changed:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            self._changed.notify_all()
        self._open.wait()
        with self._changed:
            self.inside -= 1
            self.passed.append(number)

    def open(self) -> None:
        self._open.set()

    def wait_until_inside(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.inside >= count, timeout=60), f"{count} samples never came"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does; a minute is for a machine that is very busy."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


def samples_of(results: Iterable[object]) -> list[object]:
    return [getattr(result, "sample") for result in results]  # noqa: B009  (results of any context class)
