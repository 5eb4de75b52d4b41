"""Steps that can be called and awaited: the engine chooses the way that occupies no thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ace.pipeline import Branch, Pipeline, PipelineConfigError, SampleResult, StepContext, StepProtocol


class Both:
    """Notes how it was called, and on which thread."""

    requires: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()

    def __init__(self, awaited: str, seen: list[tuple[str, str]]) -> None:
        self.awaited = awaited
        self.seen = seen

    def __call__(self, ctx: StepContext) -> StepContext:
        self.seen.append(("called", threading.current_thread().name))
        return ctx

    async def __call_async__(self, ctx: StepContext) -> StepContext:
        self.seen.append(("awaited", threading.current_thread().name))
        await asyncio.sleep(0)
        return ctx


class InLane(Both):
    lane = "l"


class Behind(Both):
    async_boundary = True


def contexts() -> list[StepContext]:
    return [StepContext(sample=number) for number in range(6)]


def ways(step: StepProtocol[StepContext], seen: list[tuple[str, str]], run: str) -> set[str]:
    seen.clear()
    pipeline = Pipeline([step])
    with pipeline:
        results = asyncio.run(awaited_run(pipeline, run)) if run != "run" else pipeline.run(contexts(), workers=2)
        pipeline.wait_for_background()
    assert [result.error for result in results] == [None] * 6
    assert len(seen) == 6
    return {how for how, _ in seen}


async def awaited_run(pipeline: Pipeline[StepContext], run: str) -> list[SampleResult[StepContext]]:
    if run == "run_async":
        return await pipeline.run_async(contexts(), workers=2)
    return [result async for result in pipeline.astream(contexts(), workers=2)]


@pytest.mark.parametrize(
    ("awaited", "run", "expected"),
    [
        ("never", "run", "called"),
        ("never", "run_async", "called"),
        ("on_loop", "run", "called"),
        ("on_loop", "run_async", "awaited"),
        ("on_loop", "astream", "awaited"),
        ("always", "run", "awaited"),
        ("always", "run_async", "awaited"),
        ("always", "astream", "awaited"),
    ],
)
def test_a_step_is_awaited_where_it_says(awaited: str, run: str, expected: str) -> None:
    seen: list[tuple[str, str]] = []
    assert ways(Both(awaited, seen), seen, run) == {expected}


@pytest.mark.parametrize("run", ["run", "run_async"])
@pytest.mark.parametrize("kind", [InLane, Behind])
@pytest.mark.parametrize(("awaited", "expected"), [("on_loop", "called"), ("always", "awaited")])
def test_in_lanes_and_in_the_background_only_what_has_to_be_is_awaited(
    kind: type[Both], awaited: str, expected: str, run: str
) -> None:
    seen: list[tuple[str, str]] = []
    assert ways(kind(awaited, seen), seen, run) == {expected}


@pytest.mark.parametrize(("awaited", "expected"), [("on_loop", "called"), ("always", "awaited")])
def test_inside_of_pipelines_and_branches(awaited: str, expected: str) -> None:
    for wrap in (lambda step: Pipeline([step]), lambda step: Branch(Pipeline([step]))):
        seen: list[tuple[str, str]] = []
        assert ways(wrap(Both(awaited, seen)), seen, "run_async") == {expected}


def test_awaited_steps_share_the_loop_of_the_caller_and_no_thread() -> None:
    seen: list[tuple[str, str]] = []
    ways(Both("on_loop", seen), seen, "run_async")
    assert {thread for _, thread in seen} == {threading.current_thread().name}


def test_observers_see_awaited_steps_once() -> None:
    ended: list[str] = []

    class Observer:
        def step_started(self, step_name: str, ctx: StepContext, background: bool) -> None:
            pass

        def step_ended(self, step_name: str, ctx: Any, background: bool, seconds: float, error: Any) -> None:
            ended.append(step_name)

    pipeline = Pipeline([Both("on_loop", [])], step_observer=Observer())
    asyncio.run(awaited_run(pipeline, "run_async"))
    assert ended == ["Both"] * 6


def test_a_step_without_the_twin_that_it_declares_is_refused() -> None:
    class Half:
        requires: frozenset[str] = frozenset()
        provides: frozenset[str] = frozenset()
        awaited = "always"

        def __call__(self, ctx: StepContext) -> StepContext:
            return ctx

    with pytest.raises(
        PipelineConfigError, match="step Half declares `awaited`, so it needs a method `async def __call_async__"
    ):
        Pipeline([Half()])
