"""Streams that are closed at awkward places, and interrupted runs beside others."""

import asyncio
import gc
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from ace.pipeline import Branch, Pipeline, SampleResult

from .sample_steps import AnyDo, Do, DoAsync, Gate, PageContext, endless, pages, variant, wait_until
from .test_interruptions import ends

Stream = Generator[SampleResult[PageContext], None, None]

KINDS: dict[str, Callable[[Callable[[int], object]], Any]] = {
    "plain": Do,
    "async": DoAsync,
    "lane": lambda action: variant(Do, lane="closing")(action),
    "branch": lambda action: Branch[PageContext](Do(), Do(action)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("waits", [True, False])
def test_a_step_may_close_its_own_stream(kind: str, workers: int, waits: bool) -> None:
    streams: list[Stream] = []
    closed = threading.Event()

    def close(number: int) -> None:
        if number == 3:
            streams[0].close()
            closed.set()

    pipeline = Pipeline[PageContext]([KINDS[kind](close)])

    def consume() -> None:
        streams.append(pipeline.stream(endless(), workers=workers))
        for _ in streams[0]:  # waits in the stream while the step closes it, or else somewhere else
            if not waits and workers > 1:
                closed.wait()

    assert ends(consume)
    assert closed.is_set()
    assert list(streams[0]) == []
    assert [result.sample for result in pipeline.run(pages(9), workers=workers)] == list(range(9))


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("workers", [1, 3])
def test_on_sample_done_may_close_the_stream(kind: str, workers: int) -> None:
    streams: list[Stream] = []
    done: list[int] = []

    def close(result: SampleResult[PageContext]) -> None:
        done.append(result.sample)
        if len(done) == 5:
            streams[0].close()

    pipeline = Pipeline[PageContext]([KINDS[kind](lambda _: None)])

    def consume() -> None:
        streams.append(pipeline.stream(endless(), workers=workers, on_sample_done=close))
        for _ in streams[0]:
            pass

    assert ends(consume)
    assert 5 <= len(done) <= 5 + workers


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_the_input_may_close_its_own_stream(step: AnyDo) -> None:
    streams: list[Stream] = []

    def closing() -> Iterator[PageContext]:
        yield from pages(5)
        streams[0].close()
        yield from endless()

    def consume() -> None:
        streams.append(Pipeline[PageContext]([step()]).stream(closing(), workers=2))
        for _ in streams[0]:
            pass

    assert ends(consume)


def test_a_background_step_may_close_the_stream_that_waits_for_room() -> None:
    streams: list[Stream] = []
    behind = variant(Do, boundary=True)(lambda number: streams[0].close() if number == 3 else None)
    pipeline = Pipeline[PageContext]([Do(), behind], background_limit=1)

    def consume() -> None:
        streams.append(pipeline.stream(endless(), workers=3))
        for _ in streams[0]:
            pass
        pipeline.wait_for_background()

    assert ends(consume)


class Cycle:
    """Holds a stream so that only the garbage collector can drop it."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.myself = self


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_may_be_collected_as_garbage_on_a_worker(kind: str) -> None:
    dropped, collected = threading.Event(), threading.Event()

    def collect(number: int) -> None:
        if number == 2:
            dropped.wait()
            gc.collect()
            collected.set()

    pipeline = Pipeline[PageContext]([KINDS[kind](collect)])

    def begin() -> None:
        cycle = Cycle(pipeline.stream(endless(), workers=2))
        next(cycle.stream)

    def use() -> None:
        begin()
        dropped.set()
        collected.wait()
        assert len(pipeline.run(pages(2), workers=2)) == 2

    gc.disable()
    try:
        assert ends(use)
    finally:
        gc.enable()


def test_a_collection_in_the_middle_of_the_engine_waits_for_nobody() -> None:
    gate = Gate()
    pipeline = Pipeline[PageContext]([Do(lambda number: gate(number) if number else None)])
    cycle: Cycle | None = Cycle(pipeline.stream(endless(), workers=2))
    assert cycle is not None
    next(cycle.stream)
    gate.wait_until_inside(1)
    del cycle
    assert ends(gc.collect)
    gate.open()


def test_closing_from_outside_waits_for_what_is_in_a_step() -> None:
    gate = Gate()
    stream = Pipeline[PageContext]([Do(lambda number: gate(number) if number else None)]).stream(endless(), workers=3)
    next(stream)
    gate.wait_until_inside(3)
    threading.Timer(0.05, gate.open).start()
    stream.close()
    assert gate.inside == 0
    assert {1, 2, 3} <= set(gate.passed)


@pytest.mark.parametrize("inner_workers", [1, 2])
def test_a_step_that_closes_a_stream_of_another_pipeline_waits_for_it(inner_workers: int) -> None:
    def use_inner(number: int) -> None:
        left: list[int] = []
        stream = Pipeline[PageContext]([Do(left.append)]).stream(endless(), workers=inner_workers)
        next(stream)
        stream.close()
        count = len(left)
        threading.Event().wait(0.01)
        assert len(left) == count

    results = list(Pipeline[PageContext]([Do(use_inner)]).stream(pages(2), workers=2))
    assert [result.error for result in results] == [None, None]


def test_an_asynchronous_step_may_close_its_own_stream() -> None:
    async def main() -> list[int]:
        closed = asyncio.Event()

        async def close(number: int) -> None:
            if number == 4:
                await stream.aclose()
                closed.set()

        pipeline = Pipeline[PageContext]([DoAsync(close)])
        stream = pipeline.astream(endless(), workers=2)
        taken = [(await anext(stream)).sample]
        await closed.wait()
        taken += [result.sample async for result in stream]
        await pipeline.run_async(pages(3))
        return taken

    taken: list[list[int]] = []
    assert ends(lambda: taken.append(asyncio.run(main())))
    assert len(taken[0]) == 1


def test_a_run_that_follows_a_stream_which_closed_itself_does_not_wait_for_its_samples() -> None:
    streams: list[Stream] = []
    learned: list[object] = []
    pipeline = Pipeline[PageContext](
        [Do(lambda number: follow(number)), variant(Do, boundary=True, lane="closing")(learned.append)]
    )

    def follow(number: object) -> None:
        if number == 1:
            streams[0].close()
            pipeline.run([PageContext(sample="later")])
            pipeline.wait_for_background()

    def consume() -> None:
        streams.append(pipeline.stream(endless(), workers=2))
        for _ in streams[0]:
            pass

    assert ends(consume)
    wait_until(lambda: "later" in learned)


@pytest.mark.parametrize("way", ["run", "run_async", "stream", "astream"])
def test_an_interrupted_run_waits_for_its_own_samples_only(way: str) -> None:
    gate = Gate()
    learned: list[int] = []

    def learn(number: int) -> None:
        if number >= 100:
            gate(number)
        learned.append(number)

    def interrupt(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    pipeline = Pipeline[PageContext]([Do(interrupt), variant(Do, boundary=True, max_workers=2)(learn)])
    pipeline.run([PageContext(sample=100)])
    gate.wait_until_inside(1)

    async def astream() -> None:
        async for _ in pipeline.astream(pages(5)):
            pass

    async def run_async() -> None:
        await pipeline.run_async(pages(5))

    ways: dict[str, Callable[[], object]] = {
        "run": lambda: pipeline.run(pages(5)),
        "stream": lambda: list(pipeline.stream(pages(5))),
        "run_async": lambda: asyncio.run(run_async()),
        "astream": lambda: asyncio.run(astream()),
    }

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            ways[way]()

    assert ends(run)
    assert learned == [0, 1, 2]
    gate.open()
    pipeline.wait_for_background()
    assert sorted(learned) == [0, 1, 2, 100]
