"""Ctrl-C while steps are at work: asynchronous ones clean up first, and long ones can see it and end early."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ace.pipeline import Pipeline, PipelineCancelled, StepContext, is_interrupted


class Step:
    requires = frozenset({"sample"})
    provides: frozenset[str] = frozenset()


def interrupt_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@pytest.fixture(autouse=True)
def default_handler() -> Any:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("observed", [False, True])
def test_an_asynchronous_step_has_cleaned_up_when_the_interruption_is_raised(observed: bool) -> None:
    cleaned: list[str] = []

    class Long(Step):
        async def __call__(self, ctx: StepContext) -> StepContext:
            try:
                asyncio.get_running_loop().call_later(0.01, interrupt_main_thread)
                while not is_interrupted():  # noqa: ASYNC110  # it can only be looked at
                    await asyncio.sleep(0.01)
            finally:
                await asyncio.sleep(0.2)
                cleaned.append("closed")
            return ctx

    look: Callable[[Any], None] | None = (lambda _: None) if observed else None
    with pytest.raises(KeyboardInterrupt):
        Pipeline([Long()]).run([StepContext("a")], on_sample_done=look)
    assert cleaned == ["closed"]


def test_other_workers_see_the_interruption_and_their_results_are_not_waited_for() -> None:
    both = threading.Barrier(2)
    ended: list[str] = []

    class Long(Step):
        def __call__(self, ctx: StepContext) -> StepContext:
            if both.wait() == 0:
                interrupt_main_thread()
            while not is_interrupted():
                threading.Event().wait(0.01)
            ended.append(str(ctx.sample))
            raise PipelineCancelled("interrupted")

    with pytest.raises(KeyboardInterrupt):
        Pipeline([Long()]).run([StepContext("a"), StepContext("b")], workers=2)
    assert sorted(ended) == ["a", "b"]


def test_a_run_does_not_see_the_interruption_of_another_one() -> None:
    seen: list[bool] = []

    class Look(Step):
        def __call__(self, ctx: StepContext) -> StepContext:
            if ctx.sample == "stop":
                raise KeyboardInterrupt
            seen.append(is_interrupted())
            return ctx

    pipeline = Pipeline([Look()])
    with pytest.raises(KeyboardInterrupt):
        pipeline.run([StepContext("stop")])
    pipeline.run([StepContext("a")])
    assert seen == [False]
    assert is_interrupted() is False
