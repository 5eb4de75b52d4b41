"""On which thread and which event loop hooks, `on_sample_done` and `on_sample_end` are called."""

import asyncio
import threading

import pytest

from ace.pipeline import Branch, Pipeline, SampleResult, StepContext

from .sample_steps import AnyDo, Do, DoAsync, PageContext, Read, ReadAsync, pages, variant
from .test_sample_ends import Call, astream, kinds, run, run_async, stream

Event = tuple[str, int, int, object]  # what, which sample, which thread, which running loop


def loop_here() -> object:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Watcher:
    """A hook and the two callbacks; notes where each call is made."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def note(self, what: str, number: int) -> None:
        self.events.append((what, number, threading.get_ident(), loop_here()))

    def before_step(self, step_name: str, ctx: StepContext) -> None:
        self.note("before", ctx.sample)

    def after_step(self, step_name: str, ctx: StepContext) -> None:
        self.note("after", ctx.sample)

    def done(self, result: SampleResult[PageContext]) -> None:
        self.note("done", result.sample)

    def end(self, result: SampleResult[PageContext]) -> None:
        self.note("end", result.sample)

    def whats(self, number: int) -> list[str]:
        return [what for what, at, _, _ in self.events if at == number]

    @property
    def threads(self) -> set[int]:
        return {thread for _, _, thread, _ in self.events}

    @property
    def loops(self) -> set[object]:
        return {loop for *_, loop in self.events}


def shapes(watcher: Watcher) -> dict[str, Pipeline[PageContext]]:
    """Pipelines whose foreground passes every kind of place; each step notes that it ran."""

    def step(base: AnyDo, lane: str | None = None) -> Do | DoAsync:
        return variant(base, lane=lane)(lambda number: watcher.events.append(("step", number, 0, None)))

    hooks = [watcher]
    nested = Pipeline[PageContext]([step(Do), step(DoAsync)], hooks=hooks)
    plain_nested = Pipeline[PageContext]([step(Do)], hooks=hooks)
    return {
        "plain": Pipeline([step(Do), step(Do)], hooks=hooks),
        "asynchronous": Pipeline([step(DoAsync), step(DoAsync)], hooks=hooks),
        "mixed": Pipeline([step(Do), step(DoAsync), step(Do)], hooks=hooks),
        "plain lane": Pipeline([step(Do, "book"), step(Do, "book")], hooks=hooks),
        "asynchronous lane": Pipeline([step(DoAsync, "book"), step(DoAsync, "book")], hooks=hooks),
        "mixed lane": Pipeline([step(Do), step(DoAsync, "book"), step(Do, "book")], hooks=hooks),
        "nested": Pipeline[PageContext]([nested]),
        "plain nested": Pipeline[PageContext]([plain_nested]),
        "nested in nested": Pipeline([Pipeline([Pipeline[PageContext]([plain_nested])])]),
        "before a boundary": Pipeline([step(Do), variant(Do, boundary=True)()], hooks=hooks),
    }


every_shape = pytest.mark.parametrize("shape", list(shapes(Watcher())))
workers_1_and_3 = pytest.mark.parametrize("workers", [1, 3])


def events_are_in_order(watcher: Watcher, number: int) -> bool:
    """Whether each step of a sample is between its two hooks, and the callbacks come last."""
    whats = watcher.whats(number)
    steps = whats[:-2]
    return whats[-2:] == ["done", "end"] and steps == ["before", "step", "after"] * (len(steps) // 3) and bool(steps)


@every_shape
@workers_1_and_3
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("debug", [False, True])
def test_in_run_async_all_calls_are_made_on_the_callers_loop_in_order(
    shape: str, workers: int, streamed: bool, debug: bool
) -> None:
    watcher = Watcher()
    pipeline = shapes(watcher)[shape]

    async def main() -> asyncio.AbstractEventLoop:
        options = {"workers": workers, "on_sample_done": watcher.done, "on_sample_end": watcher.end}
        if streamed:
            results = [result async for result in pipeline.astream(pages(4), **options)]  # type: ignore[arg-type]
        else:
            results = await pipeline.run_async(pages(4), **options)  # type: ignore[arg-type]  # one dict for all
        assert [result.error for result in results] == [None] * 4
        await asyncio.to_thread(pipeline.wait_for_background)
        return asyncio.get_running_loop()

    loop = asyncio.run(main(), debug=debug)
    calls = [event for event in watcher.events if event[0] != "step"]
    assert {thread for _, _, thread, _ in calls} == {threading.get_ident()}
    assert {at for *_, at in calls} == {loop}
    assert all(events_are_in_order(watcher, number) for number in range(4))


@every_shape
@pytest.mark.parametrize("way", [run, stream])
def test_with_one_worker_all_calls_of_run_are_made_on_the_callers_thread(shape: str, way: Call) -> None:
    watcher = Watcher()
    pipeline = shapes(watcher)[shape]
    has_background = shape == "before a boundary"
    way(pipeline, pages(4), on_sample_done=watcher.done, on_sample_end=watcher.end)
    pipeline.wait_for_background()
    calls = [event for event in watcher.events if event[0] not in ("step", "end" if has_background else "")]
    assert {thread for _, _, thread, _ in calls} == {threading.get_ident()}
    assert {at for *_, at in calls} == {None}
    assert all(events_are_in_order(watcher, number) for number in range(4))


@every_shape
def test_with_several_workers_all_calls_for_a_sample_are_made_on_one_thread_that_has_no_loop(shape: str) -> None:
    watcher = Watcher()
    pipeline = shapes(watcher)[shape]
    has_background = shape == "before a boundary"
    pipeline.run(pages(6), workers=3, on_sample_done=watcher.done, on_sample_end=watcher.end)
    pipeline.wait_for_background()
    for number in range(6):
        calls = [event for event in watcher.events if event[1] == number]
        calls = [event for event in calls if event[0] not in ("step", "end" if has_background else "")]
        assert len({thread for _, _, thread, _ in calls}) == 1
        assert {at for *_, at in calls} == {None}
        assert events_are_in_order(watcher, number)


@every_shape
def test_run_with_one_worker_inside_an_event_loop_makes_its_calls_on_the_callers_thread(shape: str) -> None:
    watcher = Watcher()
    pipeline = shapes(watcher)[shape]
    has_background = shape == "before a boundary"

    async def in_a_notebook() -> None:
        pipeline.run(pages(4), on_sample_done=watcher.done, on_sample_end=watcher.end)
        pipeline.wait_for_background()

    asyncio.run(in_a_notebook())
    calls = [event for event in watcher.events if event[0] not in ("step", "end" if has_background else "")]
    assert {thread for _, _, thread, _ in calls} == {threading.get_ident()}
    assert all(events_are_in_order(watcher, number) for number in range(4))


@pytest.mark.parametrize("way", [run_async, astream])
@kinds
def test_the_children_of_a_branch_call_their_hooks_on_the_callers_loop(way: Call, step: AnyDo) -> None:
    watcher = Watcher()
    together = threading.Barrier(2) if step is Do else None

    def meet(number: int) -> None:
        if together is not None:
            together.wait()

    children = [Pipeline[PageContext]([step(meet)], hooks=[watcher]) for _ in range(2)]
    way(Pipeline[PageContext]([Branch(*children)]), pages(3), workers=1)
    assert watcher.threads == {threading.get_ident()}
    assert len(watcher.loops) == 1
    assert None not in watcher.loops


@kinds
@workers_1_and_3
def test_children_of_a_branch_with_hooks_that_wait_for_each_other_do_not_hang_in_run(step: AnyDo, workers: int) -> None:
    class Meet:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        def before_step(self, step_name: str, ctx: StepContext) -> None:
            if step is Do:
                self.barrier.wait(timeout=60)

        def after_step(self, step_name: str, ctx: StepContext) -> None: ...

    meet = Meet()
    children = [Pipeline[PageContext]([step()], hooks=[meet]) for _ in range(2)]
    results = Pipeline[PageContext]([Branch(*children)]).run(pages(1), workers=workers)
    assert [result.error for result in results] == [None]


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("steps", [(Do, Do, Do), (Do, DoAsync, Do), (Read, ReadAsync)])
def test_a_hook_that_puts_into_an_asyncio_queue_shows_each_step_while_the_next_one_has_not_begun(
    debug: bool, steps: tuple[type, ...]
) -> None:
    """The classic progress stream; each step waits until the consumer has seen all events before it."""
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    consumed = asyncio.Event()
    seen = 0
    condition = threading.Condition()

    class Progress:
        def before_step(self, step_name: str, ctx: StepContext) -> None:
            queue.put_nowait(f"-> {step_name}")

        def after_step(self, step_name: str, ctx: StepContext) -> None:
            queue.put_nowait(f"<- {step_name}")

    begun = 0

    def wait_for_the_consumer(number: int) -> None:
        nonlocal begun
        begun += 1
        wanted = 2 * begun - 1  # all events up to the one that announced this step
        with condition:
            assert condition.wait_for(lambda: seen >= wanted, timeout=60), "the events come too late"

    async def wait_for_the_consumer_async(number: int) -> None:
        nonlocal begun
        begun += 1
        wanted = 2 * begun - 1
        while seen < wanted:
            await consumed.wait()
            consumed.clear()

    def make(kind: type) -> object:
        if kind is Do:
            return Do(wait_for_the_consumer)
        return DoAsync(wait_for_the_consumer_async) if kind is DoAsync else kind()

    async def consume() -> list[str]:
        nonlocal seen
        lines = []
        while (line := await queue.get()) is not None:
            lines.append(line)
            with condition:
                seen += 1
                condition.notify_all()
            consumed.set()
        return lines

    async def main() -> list[str]:
        pipeline = Pipeline[PageContext]([make(kind) for kind in steps], hooks=[Progress()])  # type: ignore[misc]
        consuming = asyncio.create_task(consume())
        [result] = await pipeline.run_async(pages(1))
        assert result.error is None
        queue.put_nowait(None)
        return await consuming

    names = [kind.__name__ for kind in steps]
    assert asyncio.run(main(), debug=debug) == [f"{arrow} {name}" for name in names for arrow in ("->", "<-")]


@kinds
def test_ends_in_the_background_are_told_on_the_callers_loop_while_it_runs(step: AnyDo) -> None:
    watcher = Watcher()
    pipeline = Pipeline[PageContext]([Do(), variant(step, boundary=True, max_workers=3)()])

    async def main() -> asyncio.AbstractEventLoop:
        await pipeline.run_async(pages(6), workers=2, on_sample_end=watcher.end)
        await asyncio.to_thread(pipeline.wait_for_background)
        return asyncio.get_running_loop()

    loop = asyncio.run(main())
    assert len(watcher.events) == 6
    assert (watcher.threads, watcher.loops) == ({threading.get_ident()}, {loop})


def test_ends_in_the_background_are_told_all_the_same_when_the_loop_is_gone() -> None:
    watcher = Watcher()
    leave = threading.Event()
    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True, max_workers=3)(lambda _: leave.wait())])
    asyncio.run(pipeline.run_async(pages(6), on_sample_end=watcher.end))
    leave.set()
    pipeline.wait_for_background()
    assert sorted(number for _, number, _, _ in watcher.events) == list(range(6))
    assert threading.get_ident() not in watcher.threads


def test_who_waits_for_the_background_on_the_callers_loop_finds_all_ends_told() -> None:
    watcher = Watcher()
    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True)()])

    async def main() -> int:
        await pipeline.run_async(pages(6), on_sample_end=watcher.end)
        pipeline.wait_for_background()  # blocks the loop
        return len(watcher.events)

    assert asyncio.run(main()) == 6
    assert len(watcher.events) == 6


def test_a_run_inside_a_step_calls_its_hooks_where_it_runs() -> None:
    inner_watcher = Watcher()
    inner = Pipeline[PageContext]([Pipeline[PageContext]([Do()], hooks=[inner_watcher])])
    ran: list[int] = []

    def run_inner(number: int) -> None:
        ran.append(threading.get_ident())
        inner.run(pages(1))

    outer_watcher = Watcher()
    asyncio.run(Pipeline[PageContext]([Do(run_inner)], hooks=[outer_watcher]).run_async(pages(2)))
    assert inner_watcher.threads == set(ran)
    assert threading.get_ident() not in inner_watcher.threads
    assert outer_watcher.threads == {threading.get_ident()}


@pytest.mark.parametrize("way", [run, run_async, stream, astream])
@kinds
def test_a_hook_that_ends_the_program_ends_the_run(way: Call, step: AnyDo) -> None:
    class Quit(Watcher):
        def after_step(self, step_name: str, ctx: StepContext) -> None:
            if ctx.sample == 1:
                raise SystemExit(3)

    with pytest.raises(SystemExit):
        way(Pipeline[PageContext]([step(), variant(step, lane="book")()], hooks=[Quit()]), pages(4))
