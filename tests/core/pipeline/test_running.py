"""Foreground runs: order, limits, inputs, callbacks."""

import asyncio
import logging
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from ace.pipeline import Branch, Pipeline, PipelineError, SampleResult, StepContext

from .sample_steps import (
    AnyDo,
    AnyRead,
    CountWords,
    Do,
    DoAsync,
    FindTitle,
    Gate,
    PageContext,
    Read,
    ReadAsync,
    pages,
    samples_of,
)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("read", [Read, ReadAsync])
def test_results_come_in_input_order_with_the_final_contexts(read: AnyRead, workers: int) -> None:
    def dawdle(_: int) -> None:
        time.sleep(random.random() / 1000)  # results must not depend on it, so it needs no seed

    results = Pipeline[PageContext]([read(), Do(dawdle), FindTitle(), CountWords()]).run(pages(20), workers=workers)
    assert results == [
        SampleResult(
            sample=number,
            output=PageContext(sample=number, text=f"page {number}", title=f"Page {number}", words=2),
            error=None,
            failed_at=None,
        )
        for number in range(20)
    ]


def test_an_empty_pipeline_and_an_empty_input() -> None:
    assert Pipeline[PageContext]().run([]) == []
    [result] = Pipeline[PageContext]().run(pages(1))
    assert result.output == PageContext(sample=0)
    assert Pipeline([Read()]).run(iter(()), workers=4) == []


# More than asyncio's default pool has threads on a small machine.
MANY = 12


def test_workers_bounds_the_plain_samples_in_the_foreground_and_is_reached() -> None:
    gate = Gate()
    running = threading.Thread(target=lambda: Pipeline([Do(gate)]).run(pages(2 * MANY), workers=MANY))
    running.start()
    gate.wait_until_inside(MANY)
    gate.open()
    running.join()
    assert gate.most_inside == MANY


def test_workers_bounds_the_asynchronous_samples_in_the_foreground_and_is_reached() -> None:
    inside = most_inside = 0
    full = asyncio.Event()

    async def meet() -> None:
        nonlocal inside, most_inside
        inside += 1
        most_inside = max(most_inside, inside)
        if inside == MANY:
            full.set()
        await full.wait()
        inside -= 1

    Pipeline([DoAsync(lambda _: meet())]).run(pages(2 * MANY), workers=MANY)
    assert most_inside == MANY


def test_workers_that_no_sample_needs_cost_nothing() -> None:
    tasks: list[int] = []
    pipeline = Pipeline[PageContext]([DoAsync(lambda number: tasks.append(len(asyncio.all_tasks())))])
    assert samples_of(pipeline.run(pages(3), workers=1_000_000)) == [0, 1, 2]
    assert max(tasks) < 100  # a worker for each sample, one that finds none, and who waits for any of them


@pytest.mark.parametrize("step", [Do, DoAsync])
@pytest.mark.parametrize("workers", [1, 3])
def test_contexts_are_drawn_only_as_workers_get_free(step: AnyDo, workers: int) -> None:
    drawn = 0
    most_ahead = 0
    done = 0
    lock = threading.Lock()

    def source() -> Iterator[PageContext]:
        nonlocal drawn, most_ahead
        for ctx in pages(30):
            with lock:
                drawn += 1
                most_ahead = max(most_ahead, drawn - done)
            yield ctx

    def finish(result: SampleResult[PageContext]) -> None:
        nonlocal done
        with lock:
            done += 1

    results = Pipeline([step()]).run(source(), workers=workers, on_sample_done=finish)
    assert len(results) == 30
    assert most_ahead <= workers


@pytest.mark.parametrize("workers", [1, 3])
def test_an_input_that_raises_ends_the_run_with_its_error(workers: int) -> None:
    def source() -> Iterator[PageContext]:
        yield from pages(3)
        raise OSError("the disk is gone")

    seen: list[int] = []
    for pipeline in (Pipeline([Do(seen.append)]), Pipeline([DoAsync(seen.append)])):
        seen.clear()
        with pytest.raises(OSError, match="the disk is gone"):
            pipeline.run(source(), workers=workers)
        assert sorted(seen) == [0, 1, 2]
        assert samples_of(pipeline.run(pages(2))) == [0, 1]


def test_wrong_calls_say_what_is_wrong() -> None:
    pipeline = Pipeline([Read()])
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        pipeline.run(pages(1), workers=0)
    with pytest.raises(TypeError, match=r"workers must be a whole number, got 2\.5"):
        pipeline.run(pages(1), workers=2.5)  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        pipeline.stream(pages(1), workers=0)
    with pytest.raises(TypeError, match=r"pass a list of contexts: run\(\[ctx\]\)"):
        pipeline.run(PageContext(sample=1))  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(TypeError, match="contexts is 5; it must be an iterable of contexts"):
        pipeline.run(5)  # type: ignore[arg-type]  # the mistake that is tested

    async def source() -> AsyncIterator[PageContext]:
        yield PageContext(sample=1)

    with pytest.raises(TypeError, match="contexts is an asynchronous iterable; use run_async or astream"):
        pipeline.run(source())  # type: ignore[arg-type]  # the mistake that is tested


@pytest.mark.parametrize("workers", [1, 3])
def test_a_missing_input_field_fails_the_sample_before_its_first_step(workers: int) -> None:
    class TitleNeedsAuthor(FindTitle):
        requires = frozenset({"author"})

    seen: list[int] = []
    results = Pipeline[PageContext]([Do(seen.append), TitleNeedsAuthor()]).run(pages(2), workers=workers)
    assert seen == []
    for result in results:
        assert isinstance(result.error, PipelineError)
        assert result.failed_at == "TitleNeedsAuthor"
        assert str(result.error) == (
            "step TitleNeedsAuthor requires the field 'author', which PageContext lacks and no earlier step "
            "provides; add the field to PageContext, or put a step that provides it before TitleNeedsAuthor"
        )


def test_none_is_present_and_provides_is_not_checked_against_the_class() -> None:
    class Rate(Do):
        provides = frozenset({"rating"})

    [result] = Pipeline([FindNothing(), Rate()]).run([PageContext(sample=1, text=None)])
    assert result.error is None


class FindNothing(Do):
    requires = frozenset({"text"})


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "returned None instead of a context"),
        (5, "returned 5 instead of a context"),
        ({}, "returned {} instead of a context"),
        ("text", "returned 'text' instead of a context"),
        (PageContext, "PageContext'> instead of a context"),
        (Unshowable(), "Unshowable whose repr raised RuntimeError> instead of a context"),
        ("a coroutine", "returned a coroutine instead of a context"),
    ],
)
@pytest.mark.parametrize("place", ["first", "last", "nested", "child", "lane", "background", "background lane"])
@pytest.mark.parametrize("is_observed", [False, True])
def test_a_step_that_returns_no_context_is_told_so(returned: object, said: str, place: str, is_observed: bool) -> None:
    class Forgetful(Do):
        lane = "book" if "lane" in place else None
        async_boundary = "background" in place

        def __call__(self, ctx: PageContext) -> PageContext:
            wrong: object = DoAsync()(ctx) if returned == "a coroutine" else returned
            return wrong  # type: ignore[return-value]  # the mistake that is tested

    class ForgetfulAsync(Forgetful):
        async def __call__(self, ctx: PageContext) -> PageContext:  # type: ignore[override]  # awaited by the engine
            return super().__call__(ctx)

    for forgetful in (Forgetful(), ForgetfulAsync()):
        steps: list[Any] = [forgetful, Do()]
        if place == "last":
            steps = [Do(), forgetful]
        elif place == "nested":
            steps = [Pipeline([forgetful]), Do()]
        elif place == "child":
            steps = [Branch(Do(), forgetful)]
        observer = IgnoreSteps() if is_observed else None
        pipeline = Pipeline[PageContext](steps, step_observer=observer)
        [result] = pipeline.run(pages(1))
        pipeline.wait_for_background()
        assert isinstance(result.error, PipelineError)
        assert said in str(result.error)
        assert f"step {type(forgetful).__name__} returned" in str(result.error)


class IgnoreSteps:
    def step_started(self, step_name: str, ctx: StepContext, background: bool) -> None: ...

    def step_ended(
        self, step_name: str, ctx: StepContext, background: bool, seconds: float, error: BaseException | None
    ) -> None: ...


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_a_callback_that_raises_harms_nothing(step: AnyDo, caplog: pytest.LogCaptureFixture) -> None:
    def fail(result: SampleResult[PageContext]) -> None:
        raise RuntimeError("the progress bar broke")

    results = Pipeline([step()]).run(pages(3), workers=2, on_sample_done=fail)
    assert samples_of(results) == [0, 1, 2]
    assert all(result.error is None for result in results)
    assert caplog.text.count("RuntimeError: the progress bar broke") == 3
    assert caplog.records[0].levelno == logging.ERROR


def test_callbacks_are_never_called_twice_at_once() -> None:
    inside = 0
    overlaps: list[int] = []

    def record(result: SampleResult[PageContext]) -> None:
        nonlocal inside
        inside += 1
        time.sleep(0.001)
        overlaps.append(inside)
        inside -= 1

    Pipeline([Do()]).run(pages(20), workers=8, on_sample_done=record)
    assert overlaps == [1] * 20


def _runs() -> list[tuple[str, Callable[[Pipeline[PageContext]], list[SampleResult[PageContext]]]]]:
    async def async_source() -> AsyncIterator[PageContext]:
        for ctx in pages(5):
            yield ctx

    async def collect(stream: AsyncIterator[SampleResult[PageContext]]) -> list[SampleResult[PageContext]]:
        return [result async for result in stream]

    async def inside_a_loop(pipeline: Pipeline[PageContext]) -> list[SampleResult[PageContext]]:
        return pipeline.run(pages(5))

    async def streamed_inside_a_loop(pipeline: Pipeline[PageContext]) -> list[SampleResult[PageContext]]:
        return list(pipeline.stream(pages(5)))

    return [
        ("run", lambda pipeline: pipeline.run(pages(5))),
        ("run of a generator", lambda pipeline: pipeline.run(iter(pages(5)), workers=2)),
        ("run_async", lambda pipeline: asyncio.run(pipeline.run_async(pages(5), workers=2))),
        ("run_async of a generator", lambda pipeline: asyncio.run(pipeline.run_async(iter(pages(5))))),
        ("run_async of an async iterable", lambda pipeline: asyncio.run(pipeline.run_async(async_source(), workers=2))),
        ("stream", lambda pipeline: list(pipeline.stream(iter(pages(5)), workers=2))),
        ("astream", lambda pipeline: asyncio.run(collect(pipeline.astream(pages(5))))),
        ("astream of an async iterable", lambda pipeline: asyncio.run(collect(pipeline.astream(async_source(), 3)))),
        ("run inside a running loop", lambda pipeline: asyncio.run(inside_a_loop(pipeline))),
        ("stream inside a running loop", lambda pipeline: asyncio.run(streamed_inside_a_loop(pipeline))),
    ]


RUNS = _runs()


@pytest.mark.parametrize("run", [run for _, run in RUNS], ids=[name for name, _ in RUNS])
@pytest.mark.parametrize(
    "steps",
    [(Read,), (ReadAsync,), (Read, DoAsync), (ReadAsync, Do), (ReadAsync, Do, DoAsync), (Read, DoAsync, Do)],
    ids=lambda steps: "-".join(step.__name__ for step in steps),
)
def test_plain_and_asynchronous_steps_mix_in_every_way_of_running(
    steps: tuple[AnyDo | AnyRead, ...],
    run: Callable[[Pipeline[PageContext]], list[SampleResult[PageContext]]],
) -> None:
    results = run(Pipeline([step() for step in steps]))
    assert sorted(result.sample for result in results) == [0, 1, 2, 3, 4]
    assert all(result.output and result.output.text == f"page {result.sample}" for result in results)


def test_one_pipeline_serves_runs_of_several_threads_at_once() -> None:
    pipeline = Pipeline[PageContext]([Read(), DoAsync(), FindTitle()])
    outcomes: dict[int, list[object]] = {}

    def run(number: int) -> None:
        contexts = [PageContext(sample=(number, page)) for page in range(50)]
        outcomes[number] = samples_of(pipeline.run(contexts, workers=3))

    running = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert outcomes == {number: [(number, page) for page in range(50)] for number in range(6)}


def test_results_hold_any_sample() -> None:
    [result] = Pipeline[StepContext]().run([StepContext(sample={"question": "?"})])
    assert result.sample == {"question": "?"}
