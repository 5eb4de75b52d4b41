"""`max_in_flight` bounds the samples between the first and the last step."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled, SampleResult

from .sample_steps import AnyDo, Do, DoAsync, Gate, PageContext, pages, variant, wait_until
from .test_sample_ends import Call, kinds, run, ways


class Flights:
    """Counts the samples between their first and their last step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.inside = 0
        self.most = 0

    def begin(self, number: int = 0) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def end(self, number: int = 0) -> None:
        threading.Event().wait(0.001)  # let others come in, if they may
        with self._lock:
            self.inside -= 1


@ways
@kinds
@pytest.mark.parametrize(("workers", "limit"), [(1, 1), (4, 1), (1, 3), (4, 2), (2, 5)])
def test_no_more_samples_than_that_are_between_the_first_and_the_last_step(
    way: Call, step: AnyDo, workers: int, limit: int
) -> None:
    flights = Flights()
    behind = variant(step, boundary=True, max_workers=8)
    pipeline = Pipeline[PageContext]([step(flights.begin), behind(), variant(Do, max_workers=8)(flights.end)])
    results = way(pipeline, pages(40), workers=workers, max_in_flight=limit)
    pipeline.wait_for_background()
    assert [result.error for result in results] == [None] * 40
    assert flights.most <= limit
    assert flights.inside == 0


@ways
@kinds
def test_one_in_flight_is_strictly_one_at_a_time_through_lanes_and_background(way: Call, step: AnyDo) -> None:
    events: list[tuple[str, int]] = []
    first = variant(step)(lambda number: events.append(("first", number)))
    last = variant(step, boundary=True, lane="book")(lambda number: events.append(("last", number)))
    pipeline = Pipeline[PageContext]([first, last])
    way(pipeline, iter(pages(20)), workers=4, max_in_flight=1)
    pipeline.wait_for_background()
    assert events == [(name, number) for number in range(20) for name in ("first", "last")]


@ways
@kinds
def test_failed_and_cancelled_samples_give_their_place_back(way: Call, step: AnyDo) -> None:
    def fail(number: int) -> None:
        if number % 2:
            raise ValueError(number)

    def give_up(number: int) -> None:
        if number % 4 == 2:
            raise PipelineCancelled

    behind = variant(step, boundary=True)
    pipeline = Pipeline[PageContext]([step(fail), step(give_up), behind(lambda number: 1 // (number % 8))])
    results = way(pipeline, pages(24), workers=3, max_in_flight=2)
    pipeline.wait_for_background()
    assert len(results) == 24
    assert {type(result.error) for result in results} == {ValueError, PipelineCancelled, ZeroDivisionError, type(None)}


@ways
def test_the_input_is_drawn_only_when_there_is_room(way: Call) -> None:
    flights = Flights()

    def drawn() -> Iterator[PageContext]:
        for page in pages(20):
            flights.begin()
            yield page

    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True, max_workers=4)(flights.end)])
    way(pipeline, drawn(), workers=4, max_in_flight=2)
    pipeline.wait_for_background()
    # One may be drawn between the end of the last step and the moment in which this counter is told of it.
    assert flights.most <= 2
    assert flights.inside == 0


def test_an_asynchronous_input_is_drawn_only_when_there_is_room() -> None:
    flights = Flights()

    async def drawn() -> AsyncIterator[PageContext]:
        for page in pages(20):
            flights.begin()
            yield page

    pipeline = Pipeline[PageContext]([DoAsync(), variant(DoAsync, boundary=True, max_workers=4)(flights.end)])
    results = asyncio.run(pipeline.run_async(drawn(), workers=4, max_in_flight=2))
    pipeline.wait_for_background()
    assert len(results) == 20
    assert flights.most <= 2


@ways
def test_a_cancelled_run_does_not_wait_for_room(way: Call) -> None:
    gate = Gate()
    token = CancellationToken()
    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True)(gate)])
    ended: list[list[SampleResult[PageContext]]] = []
    thread = threading.Thread(
        target=lambda: ended.append(way(pipeline, pages(5), workers=2, max_in_flight=1, cancel_token=token))
    )
    thread.start()
    gate.wait_until_inside(1)
    token.cancel()
    thread.join(timeout=60)
    assert not thread.is_alive()
    gate.open()
    pipeline.wait_for_background()
    assert [type(result.error) for result in sorted(ended[0], key=lambda sample: sample.index)] == [
        type(None),
        *[PipelineCancelled] * 4,
    ]


def test_closing_a_stream_does_not_wait_for_room() -> None:
    gate = Gate()
    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True)(gate)])
    results = pipeline.stream(pages(5), workers=2, max_in_flight=1)
    assert next(results).index == 0
    gate.wait_until_inside(1)
    results.close()
    gate.open()
    pipeline.wait_for_background()
    assert pipeline.background_stats()["completed"] == 1


def test_a_cancelled_task_does_not_wait_for_room() -> None:
    gate = Gate()
    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True)(gate)])

    async def main() -> None:
        task = asyncio.create_task(pipeline.run_async(pages(5), max_in_flight=1))
        await asyncio.to_thread(gate.wait_until_inside, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    gate.open()
    pipeline.wait_for_background()


def test_on_sample_end_is_called_before_the_next_sample_begins() -> None:
    events: list[tuple[str, int]] = []
    pipeline = Pipeline[PageContext](
        [Do(lambda number: events.append(("begin", number))), variant(Do, boundary=True)()]
    )
    pipeline.run(
        pages(10), workers=3, max_in_flight=1, on_sample_end=lambda result: events.append(("end", result.index))
    )
    pipeline.wait_for_background()
    assert events == [(name, number) for number in range(10) for name in ("begin", "end")]


def test_in_run_async_on_sample_end_is_called_before_the_next_sample_begins() -> None:
    events: list[tuple[str, int]] = []

    async def main(pipeline: Pipeline[PageContext]) -> None:
        await pipeline.run_async(
            pages(10), workers=3, max_in_flight=1, on_sample_end=lambda result: events.append(("end", result.index))
        )
        wait_in_thread = asyncio.to_thread(pipeline.wait_for_background)
        await wait_in_thread

    asyncio.run(main(Pipeline([Do(lambda number: events.append(("begin", number))), variant(Do, boundary=True)()])))
    assert events == [(name, number) for number in range(10) for name in ("begin", "end")]


def test_the_limit_holds_for_one_run() -> None:
    gate = Gate()
    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True, max_workers=4)(gate)])
    pipeline.run(pages(1), max_in_flight=1)
    pipeline.run(pages(1), max_in_flight=1)  # it does not wait for the sample of the other run
    gate.wait_until_inside(2)
    gate.open()
    pipeline.wait_for_background()


@pytest.mark.parametrize(("wrong", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), ("2", TypeError)])
def test_a_wrong_limit_is_refused(wrong: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="max_in_flight"):
        run(Pipeline[PageContext]([Do()]), pages(1), max_in_flight=wrong)


def test_a_token_keeps_nothing_of_a_run_that_is_over() -> None:
    token = CancellationToken()
    pipeline = Pipeline[PageContext]([Do()])
    pipeline.run(pages(3), max_in_flight=1, cancel_token=token)
    assert not token._listeners
    cancel: Callable[[], None] = token.cancel
    cancel()
    wait_until(lambda: token.is_cancelled)
