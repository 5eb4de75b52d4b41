"""`SubRunner`: an inner pipeline in a loop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled, PipelineError, StepContext, SubRunner


@dataclass(frozen=True)
class Count(StepContext):
    number: int = 0
    turns: int = 0
    accumulated: int = 0


class AddOne:
    requires = provides = frozenset({"number"})

    def __call__(self, ctx: Count) -> Count:
        return ctx.replace(number=ctx.number + 1)


class AddOneLater:
    requires = provides = frozenset({"number"})

    async def __call__(self, ctx: Count) -> Count:
        return ctx.replace(number=ctx.number + 1)


class CountTurn:
    requires = provides = frozenset({"turns"})

    def __call__(self, ctx: Count) -> Count:
        return ctx.replace(turns=ctx.turns + 1)


class CountTo(SubRunner[Count]):
    """Counts from `start` to `goal`; at the limit, it tells how far it came."""

    def __init__(self, max_iterations: int, step: Any = AddOne) -> None:
        super().__init__(max_iterations=max_iterations)
        self.step = step
        self.pipelines: list[Pipeline[Count]] = []

    def _build_inner_pipeline(self, **kwargs: Any) -> Pipeline[Count]:
        self.pipelines.append(Pipeline([self.step(), CountTurn()]))
        return self.pipelines[-1]

    def _build_initial_context(self, **kwargs: Any) -> Count:
        return Count(sample=kwargs["goal"], number=kwargs["start"])

    def _is_done(self, ctx: Count) -> bool:
        return bool(ctx.number >= ctx.sample)

    def _extract_result(self, ctx: Count) -> tuple[str, Count]:
        return "done", ctx

    def _accumulate(self, ctx: Count) -> Count:
        return ctx.replace(accumulated=ctx.accumulated + 1)

    def _on_timeout(self, last_ctx: Count, iteration: int, **kwargs: Any) -> tuple[str, Count, int, int]:
        return "limit", last_ctx, iteration, kwargs["goal"]


@given(start=st.integers(-5, 5), distance=st.integers(1, 30), limit=st.integers(1, 30))
@pytest.mark.parametrize("step", [AddOne, AddOneLater])
def test_the_loop_runs_until_it_is_done_or_reaches_its_limit(step: Any, start: int, distance: int, limit: int) -> None:
    goal = start + distance
    result = CountTo(limit, step).run_loop(start=start, goal=goal)
    turns = min(distance, limit)
    assert result[1] == Count(sample=goal, number=start + turns, turns=turns, accumulated=turns - 1)
    assert result[0] == ("done" if distance <= limit else "limit")
    if result[0] == "limit":
        assert result[2:] == (limit, goal)


@given(goals=st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_several_threads_use_one_object(goals: list[int]) -> None:
    runner = CountTo(20)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda goal: runner.run_loop(start=0, goal=goal), goals))
    assert [ctx.number for _, ctx in results] == goals
    assert len({id(pipeline) for pipeline in runner.pipelines}) == len(goals)


class Broken(Exception):
    pass


@given(fails_in=st.integers(1, 10))
@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_of_an_inner_step_ends_the_loop_and_names_the_step(is_async: bool, fails_in: int) -> None:
    def fail(ctx: Count) -> Count:
        if ctx.turns == fails_in - 1:
            raise Broken("no paper")
        return ctx

    class Print:
        requires: frozenset[str] = frozenset({"number"})
        provides: frozenset[str] = frozenset()

        def __call__(self, ctx: Count) -> Count:
            return fail(ctx)

    class PrintLater(Print):
        async def __call__(self, ctx: Count) -> Count:  # type: ignore[override]  # the same step, asynchronous
            return fail(ctx)

    step = PrintLater if is_async else Print
    with pytest.raises(Broken, match="no paper") as caught:
        CountTo(10, step).run_loop(start=0, goal=100)
    assert caught.value.__notes__ == [f"raised by step {step.__name__} in turn {fails_in} of CountTo"]


@given(cancelled_in=st.integers(1, 9))
def test_cancelling_the_outer_run_ends_the_loop_between_turns(cancelled_in: int) -> None:
    token = CancellationToken()
    finished: list[int] = []

    class Cancel:
        requires = provides = frozenset({"turns"})

        def __call__(self, ctx: Count) -> Count:
            if ctx.turns + 1 == cancelled_in:
                token.cancel()
            return ctx

    class Note:
        requires: frozenset[str] = frozenset({"turns"})
        provides: frozenset[str] = frozenset()

        def __call__(self, ctx: Count) -> Count:
            finished.append(ctx.turns)
            return ctx

    class Loop(SubRunner[Count]):
        def _build_inner_pipeline(self, **kwargs: Any) -> Pipeline[Count]:
            return Pipeline([Cancel(), CountTurn(), Note()])

        def _is_done(self, ctx: Count) -> bool:
            return False

    results = Pipeline([Loop(max_iterations=10)]).run([Count()], cancel_token=token)
    assert isinstance(results[0].error, PipelineCancelled)
    assert finished == list(range(1, cancelled_in + 1))


def test_it_is_a_step_with_defaults_for_a_loop_over_its_own_context() -> None:
    class UntilThree(SubRunner[Count]):
        requires = provides = frozenset({"number"})

        def _build_inner_pipeline(self, **kwargs: Any) -> Pipeline[Count]:
            return Pipeline([AddOne()])

        def _is_done(self, ctx: Count) -> bool:
            return ctx.number >= 3

    pipeline = Pipeline[Count]([UntilThree(max_iterations=3), CountTurn()])
    results = pipeline.run([Count(), Count(number=2), Count(number=-1)])
    assert [result.output and result.output.number for result in results] == [3, 3, None]
    assert isinstance(results[2].error, PipelineError)
    assert str(results[2].error) == "UntilThree is not done after 3 turns"
    assert results[2].failed_at == "UntilThree"


def test_turns_of_different_threads_overlap() -> None:
    both_inside = threading.Barrier(2)

    class Meet:
        requires = provides = frozenset({"turns"})

        def __call__(self, ctx: Count) -> Count:
            both_inside.wait()
            return ctx

    runner = CountTo(3, Meet)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: runner.run_loop(start=0, goal=9), range(2)))
    assert [result[0] for result in results] == ["limit", "limit"]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"max_iterations must be at least 1, got {limit}"):
        CountTo(limit)


@pytest.mark.parametrize("limit", [1.5, "3", True, None])
def test_a_limit_that_is_not_a_whole_number_is_refused(limit: Any) -> None:
    with pytest.raises(TypeError, match="max_iterations must be a whole number"):
        CountTo(limit)
