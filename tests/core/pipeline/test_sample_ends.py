"""`SampleResult.index`, and `on_sample_end`: one call for each sample, when it is over for good."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled, SampleResult, StepContext

from .sample_steps import AnyDo, Do, DoAsync, Gate, PageContext, pages, variant, wait_until

Results = list[SampleResult[PageContext]]
Call = Callable[..., Results]


def run(pipeline: Pipeline[PageContext], contexts: object, **options: object) -> Results:
    return pipeline.run(contexts, **options)  # type: ignore[arg-type]  # passed on as they are


def run_async(pipeline: Pipeline[PageContext], contexts: object, **options: object) -> Results:
    return asyncio.run(pipeline.run_async(contexts, **options))  # type: ignore[arg-type]  # as above


def stream(pipeline: Pipeline[PageContext], contexts: object, **options: object) -> Results:
    return list(pipeline.stream(contexts, **options))  # type: ignore[arg-type]  # as above


def astream(pipeline: Pipeline[PageContext], contexts: object, **options: object) -> Results:
    async def collect() -> Results:
        return [result async for result in pipeline.astream(contexts, **options)]  # type: ignore[arg-type]  # as above

    return asyncio.run(collect())


ways = pytest.mark.parametrize("way", [run, run_async, stream, astream])
kinds = pytest.mark.parametrize("step", [Do, DoAsync])


def test_index_is_the_last_field_and_minus_one_by_default() -> None:
    result = SampleResult[StepContext]("sample", None, None, None, None)
    assert result.index == -1
    assert SampleResult("sample", None, None, None, None, 3).index == 3


@ways
@kinds
@pytest.mark.parametrize("workers", [1, 3])
def test_each_result_has_its_place_in_the_input(way: Call, step: AnyDo, workers: int) -> None:
    def fail(number: int) -> None:
        if number % 3 == 1:
            raise ValueError(number)

    pipeline = Pipeline[PageContext]([step(fail)])
    for _ in range(2):  # the second run counts from 0 again
        same = PageContext(sample=7)
        results = way(pipeline, [*pages(5), same, same], workers=workers)
        assert sorted(result.index for result in results) == list(range(7))
        assert [result.sample for result in sorted(results, key=lambda sample: sample.index)] == [0, 1, 2, 3, 4, 7, 7]


@ways
def test_index_of_a_later_run_counts_from_zero_where_lanes_number_samples_across_runs(way: Call) -> None:
    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True, lane="book")()])
    for _ in range(2):
        results = way(pipeline, pages(3))
        assert sorted(result.index for result in results) == [0, 1, 2]
    pipeline.wait_for_background()


@ways
@kinds
@pytest.mark.parametrize("workers", [1, 3])
def test_on_sample_end_is_called_once_for_each_sample_without_a_background(
    way: Call, step: AnyDo, workers: int
) -> None:
    def fail(number: int) -> None:
        if number == 2:
            raise ValueError(number)

    events: list[tuple[str, int]] = []
    results = way(
        Pipeline[PageContext]([step(fail)]),
        pages(4),
        workers=workers,
        on_sample_done=lambda result: events.append(("done", result.index)),
        on_sample_end=lambda result: events.append(("end", result.index)),
    )
    assert len(results) == 4
    assert sorted(events) == [(kind, index) for kind in ("done", "end") for index in range(4)]
    for index in range(4):
        assert [kind for kind, at in events if at == index] == ["done", "end"]


@kinds
@pytest.mark.parametrize("lane", [None, "book"])
def test_on_sample_end_is_called_when_the_background_has_ended(step: AnyDo, lane: str | None) -> None:
    gate = Gate()

    def work(number: int) -> None:
        if number == 1:
            raise ValueError(number)
        if step is Do:
            gate(number)

    ended: list[SampleResult[PageContext]] = []
    done: list[int] = []
    pipeline = Pipeline[PageContext]([Do(), variant(step, boundary=True, max_workers=3, lane=lane)(work)])
    results = pipeline.run(
        pages(3), on_sample_done=lambda result: done.append(result.index), on_sample_end=ended.append
    )
    assert done == [0, 1, 2]
    gate.open()
    pipeline.wait_for_background()
    assert sorted(result.index for result in ended) == [0, 1, 2]
    assert {id(result) for result in ended} == {id(result) for result in results}
    assert [type(result.error) for result in sorted(ended, key=lambda sample: sample.index)] == [
        type(None),
        ValueError,
        type(None),
    ]


@ways
def test_on_sample_end_is_called_for_cancelled_samples_too(way: Call) -> None:
    token = CancellationToken()
    ended: list[SampleResult[PageContext]] = []
    way(
        Pipeline[PageContext]([Do(lambda _: token.cancel()), Do()]),
        pages(3),
        cancel_token=token,
        on_sample_end=ended.append,
    )
    assert [result.index for result in ended] == [0, 1, 2]
    assert all(isinstance(result.error, PipelineCancelled) for result in ended)


@ways
def test_on_sample_end_that_raises_is_logged_and_the_run_continues(way: Call, caplog: pytest.LogCaptureFixture) -> None:
    def fail(result: SampleResult[PageContext]) -> None:
        raise RuntimeError("no display")

    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True)()])
    results = way(pipeline, pages(3), on_sample_end=fail)
    pipeline.wait_for_background()
    assert [result.error for result in results] == [None] * 3
    wait_until(lambda: len(caplog.records) == 3)
    assert all("on_sample_end raised for sample" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_on_sample_end_that_wants_to_end_the_program_does_not_lose_a_background_sample(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(result: SampleResult[PageContext]) -> None:
        raise error

    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True, lane="book")()])
    pipeline.run(pages(3), on_sample_end=fail)
    pipeline.wait_for_background()
    assert pipeline.background_stats()["completed"] == 3


def test_on_sample_end_is_never_called_twice_at_once() -> None:
    inside = 0
    most = 0

    def end(result: SampleResult[PageContext]) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.001)
        inside -= 1

    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True, max_workers=4)()])
    pipeline.run(pages(30), workers=4, on_sample_end=end)
    pipeline.wait_for_background()
    assert most == 1


def test_on_sample_end_of_one_run_hears_nothing_of_another() -> None:
    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True)()])
    first: list[int] = []
    second: list[int] = []
    pipeline.run(pages(3), on_sample_end=lambda result: first.append(result.index))
    pipeline.run(pages(2), on_sample_end=lambda result: second.append(result.index))
    pipeline.run(pages(4))
    pipeline.wait_for_background()
    assert (first, second) == ([0, 1, 2], [0, 1])


@pytest.mark.parametrize("name", ["on_sample_end", "on_sample_done"])
def test_a_callback_that_cannot_be_called_is_refused_by_its_name(name: str) -> None:
    async def later(result: object) -> None: ...

    pipeline = Pipeline[PageContext]([Do()])
    for wrong in (3, later):
        with pytest.raises(TypeError, match=name):
            run(pipeline, pages(1), **{name: wrong})
