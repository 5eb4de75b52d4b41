"""Behind the async boundary."""

import asyncio
import threading

import pytest

from ace.pipeline import Pipeline, SampleResult

from .sample_steps import (
    AnyDo,
    CountWords,
    Do,
    DoAsync,
    Gate,
    PageContext,
    Read,
    engine_threads,
    pages,
    samples_of,
    variant,
    wait_until,
)
from .test_interruptions import ends


def test_run_returns_when_the_foreground_is_over_and_results_follow_the_background() -> None:
    gate = Gate()
    count = variant(CountWords, "CountInBackground", boundary=True)
    pipeline = Pipeline[PageContext]([Read(), count(), variant(Do, "Hold")(gate)])
    results = pipeline.run(pages(3))
    gate.wait_until_inside(1)
    assert [result.output for result in results] == [PageContext(sample=n, text=f"page {n}") for n in range(3)]
    gate.open()
    pipeline.wait_for_background()
    assert [result.output for result in results] == [PageContext(sample=n, text=f"page {n}", words=2) for n in range(3)]


def test_a_background_failure_lands_on_the_result_that_the_caller_holds() -> None:
    class Fragile(Do):
        async_boundary = True

        def __call__(self, ctx: PageContext) -> PageContext:
            if ctx.sample == 1:
                raise ValueError("page 1 is torn")
            return ctx

    pipeline = Pipeline[PageContext]([Read(), Fragile(), variant(Do, "Last")()])
    results = pipeline.run(pages(3))
    pipeline.wait_for_background()
    assert [result.failed_at for result in results] == [None, "Fragile", None]
    assert str(results[1].error) == "page 1 is torn"
    assert results[1].output is None
    assert pipeline.background_stats() == {"active": 0, "queued": 0, "completed": 3, "failed": 1}


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError("by itself")])
@pytest.mark.parametrize("step", [Do, DoAsync])
def test_no_error_of_a_background_step_ends_its_workers(error: BaseException, step: AnyDo) -> None:
    def leave(number: int) -> None:
        if number == 0:
            raise error

    pipeline = Pipeline([variant(step, "Leave", boundary=True)(leave)])
    results = pipeline.run(pages(3))
    pipeline.wait_for_background()
    assert [result.error for result in results] == [error, None, None]
    assert [result.failed_at for result in results] == ["Leave", None, None]
    [later] = pipeline.run([PageContext(sample=9)])
    pipeline.wait_for_background()
    assert later.error is None


@pytest.mark.parametrize("boundary", [False, True])
@pytest.mark.parametrize("lane", [None, "book"])
def test_a_step_that_cancels_its_own_task_and_returns_all_the_same_loses_no_sample(
    lane: str | None, boundary: bool
) -> None:
    def cancel(number: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        if number == 2:
            task.cancel()

    pipeline = Pipeline([variant(DoAsync, boundary=boundary, lane=lane)(cancel)])
    results: list[SampleResult[PageContext]] = []

    def run() -> None:
        results.extend(pipeline.run(pages(3)))
        pipeline.wait_for_background()

    assert ends(run)
    assert [result.error for result in results] == [None] * 3


def test_plain_steps_behind_the_boundary_overlap_up_to_their_limit() -> None:
    gate = Gate()
    pipeline = Pipeline([variant(Do, "Reflect", boundary=True, max_workers=3)(gate)])
    results = pipeline.run(pages(20))
    gate.wait_until_inside(3)
    gate.open()
    pipeline.wait_for_background()
    assert all(result.error is None for result in results)
    assert gate.most_inside == 3


def test_asynchronous_steps_behind_the_boundary_overlap_up_to_their_limit() -> None:
    inside = most_inside = 0
    full = asyncio.Event()

    async def meet() -> None:
        nonlocal inside, most_inside
        inside += 1
        most_inside = max(most_inside, inside)
        if inside == 3:
            full.set()
        await full.wait()
        inside -= 1

    pipeline = Pipeline([variant(DoAsync, "Reflect", boundary=True, max_workers=3)(lambda _: meet())])
    results = pipeline.run(pages(20))
    pipeline.wait_for_background()
    assert all(result.error is None for result in results)
    assert most_inside == 3


def test_one_limit_for_all_pipelines_that_use_a_step_class() -> None:
    gate = Gate()
    reflect = variant(Do, "Reflect", boundary=True, max_workers=2)
    pipelines = [Pipeline([reflect(gate)]) for _ in range(3)]
    for pipeline in pipelines:
        pipeline.run(pages(4))
    gate.wait_until_inside(2)
    gate.open()
    for pipeline in pipelines:
        pipeline.wait_for_background()
    assert gate.most_inside == 2
    assert len(gate.passed) == 12


def test_a_subclass_and_an_instance_with_its_own_max_workers_have_their_own_limit() -> None:
    gate = Gate()
    reflect = variant(Do, "Reflect", boundary=True, max_workers=1)
    own = reflect(gate)
    own.max_workers = 2
    pipelines = [Pipeline([step]) for step in (reflect(gate), variant(reflect, boundary=True)(gate), own)]
    for pipeline in pipelines:
        pipeline.run(pages(5))
    gate.wait_until_inside(1 + 1 + 2)
    gate.open()
    for pipeline in pipelines:
        pipeline.wait_for_background()
    assert gate.most_inside == 4


def test_a_nested_pipeline_behind_the_boundary_admits_as_many_as_its_narrowest_step() -> None:
    gate = Gate()
    inner = Pipeline([variant(Do, max_workers=3)(gate), variant(Do, max_workers=5)()])
    outer = Pipeline[PageContext]([variant(Do, boundary=True)(), inner])
    outer.run(pages(9))
    gate.wait_until_inside(3)
    gate.open()
    outer.wait_for_background()
    assert gate.most_inside == 3


@pytest.mark.parametrize("foreground", [Do, DoAsync])
def test_the_background_takes_in_no_more_than_its_limit(foreground: AnyDo) -> None:
    gate = Gate()
    entered: list[int] = []
    pipeline = Pipeline([foreground(entered.append), variant(Do, boundary=True)(gate)], background_limit=4)
    running = threading.Thread(target=lambda: pipeline.run(pages(20), workers=2))
    running.start()
    wait_until(lambda: pipeline.background_stats()["queued"] == 3)
    gate.wait_until_inside(1)
    wait_until(lambda: len(entered) == 6)  # four inside, and two that wait in the foreground for a place
    assert pipeline.background_stats() == {"active": 1, "queued": 3, "completed": 0, "failed": 0}
    gate.open()
    running.join()
    pipeline.wait_for_background()
    assert sorted(gate.passed) == list(range(20))


def test_waiting_times_out_with_the_number_of_samples_and_loses_nothing() -> None:
    gate = Gate()
    pipeline = Pipeline([variant(Do, boundary=True)(gate)])
    results = pipeline.run(pages(3))
    with pytest.raises(TimeoutError, match=r"3 samples are still in the background after 0\.01 s; they continue"):
        pipeline.wait_for_background(timeout=0.01)
    gate.open()
    pipeline.wait_for_background(timeout=60)
    assert samples_of(results) == gate.passed == [0, 1, 2]


def test_stats_are_never_forgotten_and_any_thread_may_ask() -> None:
    pipeline = Pipeline([variant(Do, boundary=True)()])
    for runs in (1, 2, 3):
        pipeline.run(pages(4))
        pipeline.wait_for_background()
        counts: list[dict[str, int]] = []
        asking = threading.Thread(target=lambda: counts.append(pipeline.background_stats()))  # noqa: B023  (joined here)
        asking.start()
        asking.join()
        assert counts == [{"active": 0, "queued": 0, "completed": 4 * runs, "failed": 0}]


def test_on_sample_done_fires_before_any_background_step_of_the_sample_starts() -> None:
    events: list[tuple[str, int]] = []

    def note(result: SampleResult[PageContext]) -> None:
        events.append(("done", result.sample))

    def work(number: int) -> None:
        events.append(("background", number))

    for foreground in (Do, DoAsync):
        events.clear()
        pipeline = Pipeline([foreground(), variant(Do, boundary=True, max_workers=4)(work)])
        pipeline.run(pages(30), workers=4, on_sample_done=note)
        pipeline.wait_for_background()
        for number in range(30):
            assert events.index(("done", number)) < events.index(("background", number))


def test_close_drains_and_gives_back_the_threads_and_the_pipeline_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ace.pipeline.threads._IDLE_SECONDS", 600)  # so that no thread ends by itself
    seen: list[int] = []
    with Pipeline([variant(Do, boundary=True, max_workers=3)(seen.append)]) as pipeline:
        pipeline.run(pages(5))
    assert sorted(seen) == [0, 1, 2, 3, 4]

    def are_given_back() -> bool:
        pipeline.close()  # again, for a thread that had just done its work and did not count as idle yet
        return engine_threads() == []

    wait_until(are_given_back)
    pipeline.run(pages(2))
    pipeline.close()
    assert len(seen) == 7


def test_closing_one_pipeline_leaves_the_work_of_another_alone() -> None:
    gate = Gate()
    reflect = variant(Do, "Reflect", boundary=True, max_workers=2)
    other = Pipeline([reflect(gate)])
    other.run(pages(4))
    gate.wait_until_inside(2)
    with Pipeline([variant(Do, boundary=True)()]) as pipeline:
        pipeline.run(pages(1))
    gate.open()
    other.wait_for_background()
    assert sorted(gate.passed) == [0, 1, 2, 3]
