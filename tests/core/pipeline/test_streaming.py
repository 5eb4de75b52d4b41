"""Results one by one, in bounded memory."""

import asyncio
import itertools
import threading
import tracemalloc
from array import array
from collections.abc import AsyncIterator, Iterator

import pytest

from ace.pipeline import Pipeline, SampleResult

from .sample_steps import AnyDo, Do, DoAsync, Gate, PageContext, pages, variant, wait_until


class Endless:
    """An input without end that counts what was drawn of it."""

    def __init__(self) -> None:
        self.drawn = 0

    def __iter__(self) -> Iterator[PageContext]:
        for number in itertools.count():
            self.drawn += 1
            yield PageContext(sample=number)

    async def __aiter__(self) -> AsyncIterator[PageContext]:
        for ctx in self:
            yield ctx


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_an_endless_input_stays_bounded_and_closing_stops_it(step: AnyDo) -> None:
    workers, limit = 4, 10
    source = Endless()
    learned = array("l")  # needs little memory
    pipeline = Pipeline([step(), variant(Do, boundary=True)(learned.append)], background_limit=limit)
    stream = pipeline.stream(iter(source), workers=workers)
    most_ahead = 0
    tracemalloc.start()
    sizes: list[int] = []
    for taken, _result in enumerate(stream, 1):
        # Being worked on, plus waiting to be taken; the one just taken leaves room for one more.
        most_ahead = max(most_ahead, source.drawn - taken)
        if taken in (500, 2000):
            sizes.append(tracemalloc.get_traced_memory()[0])
        if taken == 2000:
            break
    tracemalloc.stop()
    stream.close()
    drawn = source.drawn
    assert most_ahead <= 2 * workers + 1
    # Each result alone would be more than 100 bytes.
    assert sizes[1] - sizes[0] < 1500 * 50
    pipeline.wait_for_background()
    assert source.drawn == drawn
    assert len(learned) == len(set(learned)) <= drawn
    assert set(range(2000)) <= set(learned)
    # The pipeline is as good as new.
    assert len(pipeline.run(pages(3))) == 3
    pipeline.close()


def test_a_slow_background_holds_the_stream_back() -> None:
    gate = Gate()
    source = Endless()
    pipeline = Pipeline([Do(), variant(Do, boundary=True)(gate)], background_limit=3)
    taken: list[SampleResult[PageContext]] = []
    consumer = threading.Thread(
        target=lambda: taken.extend(itertools.islice(pipeline.stream(iter(source), workers=2), 20))
    )
    consumer.start()
    gate.wait_until_inside(1)
    wait_until(lambda: pipeline.background_stats() == {"active": 1, "queued": 2, "completed": 0, "failed": 0})
    assert source.drawn <= 3 + 2 + 2
    gate.open()
    consumer.join()
    assert len(taken) == 20
    pipeline.wait_for_background()


def test_a_stream_yields_as_foregrounds_finish() -> None:
    gate = Gate()
    pipeline = Pipeline([Do(lambda number: gate(number) if number == 0 else None)])
    stream = pipeline.stream(pages(3), workers=2)
    assert next(stream).sample == 1
    assert next(stream).sample == 2
    gate.open()
    assert [result.sample for result in stream] == [0]


def test_a_stream_that_is_never_asked_does_nothing() -> None:
    source = Endless()
    stream = Pipeline([Do()]).stream(iter(source), workers=4)
    stream.close()
    assert source.drawn == 0


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_an_endless_asynchronous_stream_stays_bounded(step: AnyDo) -> None:
    source = Endless()
    pipeline = Pipeline([step()])

    async def consume() -> int:
        most_ahead = taken = 0
        stream = pipeline.astream(source, workers=4)
        async for _ in stream:
            taken += 1
            most_ahead = max(most_ahead, source.drawn - taken)
            if taken == 200:
                break
        await stream.aclose()
        drawn = source.drawn
        await asyncio.sleep(0.01)
        assert source.drawn == drawn
        return most_ahead

    assert asyncio.run(consume()) <= 2 * 4 + 1


def test_cancelling_the_consumer_of_an_asynchronous_stream_ends_its_samples() -> None:
    begun: list[int] = []
    ended: list[int] = []

    async def wait_for_ever(number: int) -> None:
        begun.append(number)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    pipeline = Pipeline([DoAsync(wait_for_ever)])

    async def consume() -> None:
        async for _ in pipeline.astream(pages(5), workers=2):
            raise AssertionError("nothing can come out")

    async def cancel_it() -> None:
        task = asyncio.create_task(consume())
        while len(begun) < 2:  # noqa: ASYNC110  # steps fill it
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_it())
    assert sorted(ended) == [0, 1]


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_an_input_that_raises_ends_the_stream_after_what_was_drawn(step: AnyDo) -> None:
    def source() -> Iterator[PageContext]:
        yield from pages(3)
        raise OSError("the disk is gone")

    stream = Pipeline([step()]).stream(source(), workers=2)
    seen = [next(stream).sample for _ in range(3)]
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)
    assert sorted(seen) == [0, 1, 2]
