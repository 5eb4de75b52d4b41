"""Loops, threads and context variables."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from ace.pipeline import Branch, Pipeline, SampleResult

from .sample_steps import AnyDo, Do, DoAsync, PageContext, Read, ReadAsync, pages, variant

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")


def test_run_awaits_all_asynchronous_steps_on_one_loop() -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    async def note() -> None:
        loops.add(asyncio.get_running_loop())

    step = DoAsync(lambda _: note())
    behind = variant(DoAsync, "Behind", boundary=True)(lambda _: note())
    in_lane = variant(DoAsync, "InLane", lane="book")(lambda _: note())
    pipeline = Pipeline[PageContext]([step, Do(), Branch(step, step), Pipeline([step]), behind, in_lane])
    for _ in range(2):
        results = pipeline.run(pages(4), workers=2)
        pipeline.wait_for_background()
        assert all(result.error is None for result in results)
    assert len(loops) == 1


def test_run_async_awaits_foreground_steps_on_the_callers_loop() -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    async def note() -> None:
        loops.add(asyncio.get_running_loop())

    async def main() -> asyncio.AbstractEventLoop:
        step = DoAsync(lambda _: note())
        await Pipeline[PageContext]([step, Do(), Branch(step, Do())]).run_async(pages(4), workers=2)
        return asyncio.get_running_loop()

    assert loops == {asyncio.run(main())}


@pytest.mark.parametrize("steps", [[Do], [DoAsync, Do]], ids=["plain", "mixed"])
def test_plain_steps_never_block_the_callers_loop(steps: list[AnyDo]) -> None:
    answered = threading.Event()

    def wait_for_the_loop(number: int) -> None:
        assert answered.wait(60), "the loop was blocked"

    async def main() -> list[SampleResult[PageContext]]:
        asyncio.get_running_loop().call_later(0.01, answered.set)
        *before, last = steps
        pipeline = Pipeline[PageContext]([*(step() for step in before), last(wait_for_the_loop)])
        return await pipeline.run_async(pages(2))

    assert all(result.error is None for result in asyncio.run(main()))


def test_a_generator_that_blocks_never_blocks_the_callers_loop() -> None:
    answered = threading.Event()

    def source() -> object:
        assert answered.wait(60), "the loop was blocked"
        yield from pages(2)

    async def main(step: AnyDo) -> int:
        answered.clear()
        asyncio.get_running_loop().call_later(0.01, answered.set)
        return len(await Pipeline([step()]).run_async(source()))  # type: ignore[arg-type]  # a generator of contexts

    assert asyncio.run(main(Do)) == asyncio.run(main(DoAsync)) == 2


def test_a_sequence_that_reads_when_it_is_asked_never_blocks_the_callers_loop() -> None:
    answered = threading.Event()

    class Files(Sequence[PageContext]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: object) -> Any:  # one, or for a slice several
            if index != 0:
                raise IndexError
            assert answered.wait(60), "the loop was blocked"
            return PageContext(sample=0)

    async def main() -> list[BaseException | None]:
        asyncio.get_running_loop().call_later(0.01, answered.set)
        return [result.error for result in await Pipeline([DoAsync()]).run_async(Files())]

    assert asyncio.run(main()) == [None]


@pytest.mark.parametrize("outer", [Do, DoAsync])
@pytest.mark.parametrize("inner", [Do, DoAsync])
@pytest.mark.parametrize("boundary", [False, True])
def test_a_step_may_run_or_call_another_pipeline(outer: AnyDo, inner: AnyDo, boundary: bool) -> None:
    learned: list[int] = []
    sub = Pipeline[PageContext]([Read(), inner(), variant(Do, boundary=True)(learned.append)])
    called = Pipeline[PageContext]([inner(), ReadAsync()])

    def run(number: int) -> None:
        results = sub.run(pages(3), workers=2)
        assert all(result.error is None for result in results)
        assert called(PageContext(sample=number)).text == f"page {number}"

    pipeline = Pipeline([variant(outer, boundary=boundary)(run)])
    results = pipeline.run(pages(2))
    pipeline.wait_for_background()
    assert [result.error for result in results] == [None, None]
    sub.wait_for_background()
    assert sorted(learned) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("workers", [1, 3])
def test_context_variables_of_the_caller_reach_every_step(workers: int) -> None:
    seen: list[tuple[str, str]] = []

    def note(place: str) -> Callable[[int], None]:
        return lambda _: seen.append((place, request_id.get()))

    places = Pipeline[PageContext](
        [
            Do(note("plain")),
            DoAsync(note("async")),
            Branch(Do(note("child")), Do(note("other child")), DoAsync(note("async child"))),
            Pipeline([Do(note("nested")), DoAsync(note("async nested"))]),
            variant(Do, lane="one")(note("foreground lane")),
            variant(Do, boundary=True)(note("background")),
            variant(DoAsync)(note("async background")),
            variant(Do, lane="two")(note("lane")),
            variant(DoAsync, lane="two")(note("async lane")),
        ]
    )
    token = request_id.set("mine")
    try:
        results = places.run(pages(2), workers=workers)
        results += asyncio.run(places.run_async(pages(1), workers=workers))
    finally:
        request_id.reset(token)
    places.wait_for_background()
    assert [result.error for result in results] == [None] * 3
    assert {value for _, value in seen} == {"mine"}
    assert len(seen) == 3 * 12


class SeenVariables:
    """Steps that set the variable of a sample, and note what it is."""

    def __init__(self) -> None:
        self.before: list[str] = []
        self.after: list[tuple[int, str]] = []

    def set_it(self, number: int) -> None:
        self.before.append(request_id.get())
        request_id.set(f"request {number}")

    def note(self, number: int) -> None:
        self.after.append((number, request_id.get()))


@pytest.mark.parametrize("first", [Do, DoAsync])
@pytest.mark.parametrize("second", [Do, DoAsync])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_variable_that_a_step_sets_reaches_its_samples_later_steps_and_no_other_sample(
    first: AnyDo, second: AnyDo, workers: int
) -> None:
    seen = SeenVariables()
    pipeline = Pipeline[PageContext](
        [first(seen.set_it), second(seen.note), variant(Do, boundary=True)(seen.note), variant(DoAsync)(seen.note)]
    )
    pipeline.run(pages(6), workers=workers)
    pipeline.wait_for_background()
    assert seen.before == ["none"] * 6
    assert sorted(seen.after) == sorted([(number, f"request {number}") for number in range(6)] * 3)
    assert request_id.get() == "none"


@pytest.mark.parametrize("first", [Do, DoAsync])
@pytest.mark.parametrize("second", [Do, DoAsync])
@pytest.mark.parametrize("boundary", [False, True])
def test_a_variable_that_a_step_sets_in_a_lane_reaches_its_samples_later_steps_and_no_other_sample(
    first: AnyDo, second: AnyDo, boundary: bool
) -> None:
    seen = SeenVariables()
    setting = variant(first, boundary=boundary, lane="book")(seen.set_it)
    pipeline = Pipeline[PageContext](
        [setting, variant(second, lane="book")(seen.note), Do(seen.note), DoAsync(seen.note)]
    )
    pipeline.run(pages(4), workers=2)
    pipeline.wait_for_background()
    assert seen.before == ["none"] * 4
    assert sorted(seen.after) == sorted([(number, f"request {number}") for number in range(4)] * 3)
    assert request_id.get() == "none"


def test_a_step_that_is_async_by_a_wrapper_counts_as_async() -> None:
    class Wrapped(Do):
        def __init__(self) -> None:
            super().__init__()
            self._inner = ReadAsync()

        __call__ = ReadAsync.__call__  # type: ignore[assignment]  # the attribute of another class, as decorators do

    [result] = Pipeline([Wrapped()]).run(pages(1))
    assert result.output == PageContext(sample=0, text="page 0")


@pytest.mark.parametrize("step", [Do, DoAsync])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("way", ["run", "stream", "run_async"])
def test_the_input_sees_the_context_variables_of_the_caller(way: str, workers: int, step: AnyDo) -> None:
    seen: list[str] = []

    def source() -> Iterator[PageContext]:
        for context in pages(4):
            seen.append(request_id.get())
            yield context

    def use() -> None:
        request_id.set("Ana")
        pipeline = Pipeline[PageContext]([step()])
        if way == "run":
            pipeline.run(source(), workers=workers)
        elif way == "stream":
            list(pipeline.stream(source(), workers=workers))
        else:
            asyncio.run(pipeline.run_async(source(), workers=workers))

    contextvars.copy_context().run(use)
    assert seen == ["Ana"] * 4


@pytest.mark.parametrize("workers", [1, 2])
def test_the_input_keeps_the_context_variables_that_it_sets(workers: int) -> None:
    seen: list[str] = []

    def source() -> Iterator[PageContext]:
        for context in pages(4):
            seen.append(request_id.get())
            request_id.set(f"after {context.sample}")
            yield context

    contextvars.copy_context().run(lambda: Pipeline[PageContext]([Do()]).run(source(), workers=workers))
    assert seen == ["none", "after 0", "after 1", "after 2"]
