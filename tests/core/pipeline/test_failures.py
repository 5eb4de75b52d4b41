"""What goes wrong in the foreground, and where it is reported."""

import asyncio
import copy
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from ace.pipeline import Branch, BranchError, Pipeline, PipelineCancelled

from .sample_steps import AnyDo, Do, DoAsync, Gate, PageContext, endless, pages, samples_of, variant, wait_until


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("step", [Do, DoAsync])
def test_a_failing_sample_yields_a_result_and_stops_nobody(step: AnyDo, workers: int) -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise ValueError("page 1 is torn")

    last: list[int] = []
    pipeline = Pipeline[PageContext]([Do(), variant(step, "Fragile")(fail), step(last.append)])
    results = pipeline.run(pages(4), workers=workers)
    assert samples_of(results) == [0, 1, 2, 3]
    assert [type(result.error) for result in results] == [type(None), ValueError, type(None), type(None)]
    assert [result.failed_at for result in results] == [None, "Fragile", None, None]
    assert results[1].output is None
    assert results[1].cause is None
    assert sorted(last) == [0, 2, 3]


def test_a_nested_pipeline_fails_as_one_step_with_the_inner_error() -> None:
    def fail(number: int) -> None:
        raise ValueError("inside")

    [result] = Pipeline([Pipeline([Do(fail)])]).run(pages(1))
    assert str(result.error) == "inside"
    assert result.failed_at == "Pipeline"


def test_pipeline_cancelled_raised_by_a_step_is_that_samples_error() -> None:
    def give_up(number: int) -> None:
        if number == 0:
            raise PipelineCancelled("not worth it")

    first, second = Pipeline([Do(give_up)]).run(pages(2))
    assert str(first.error) == "not worth it"
    assert second.error is None


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("place", ["foreground", "branch", "nested", "background", "lane"])
def test_a_step_that_cancels_its_own_task_fails_its_sample_only(place: str, workers: int) -> None:
    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    step = DoAsync(lambda number: cancel() if number == 1 else None)
    behind, in_lane = variant(DoAsync, boundary=True)(step.action), variant(DoAsync, lane="own task")(step.action)
    other = Gate()
    other.open()
    pipelines: dict[str, Pipeline[PageContext]] = {
        "foreground": Pipeline([step]),
        "branch": Pipeline([Branch(step, Do(other))]),
        "nested": Pipeline([Pipeline([step])]),
        "background": Pipeline([behind]),
        "lane": Pipeline([Do(), in_lane]),
    }
    results = pipelines[place].run(pages(5), workers=workers)
    pipelines[place].wait_for_background()
    assert samples_of(results) == [0, 1, 2, 3, 4]
    assert isinstance(results[1].cause or results[1].error, asyncio.CancelledError)
    assert [result.error for result in results if result.sample != 1] == [None] * 4
    assert place != "branch" or sorted(other.passed) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("raises", [False, True])
def test_a_step_that_cancels_its_own_task_and_goes_on_does_not_harm_the_next_sample(raises: bool, workers: int) -> None:
    def cancel(number: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        if number == 1:
            task.cancel()
            if raises:
                raise ValueError("and fails besides")

    results = Pipeline([DoAsync(lambda number: asyncio.sleep(0)), DoAsync(cancel)]).run(pages(5), workers=workers)
    assert [type(result.error) for result in results if result.error is not None] == [ValueError] * raises
    assert samples_of(results) == [0, 1, 2, 3, 4]


def test_an_input_that_raises_cancelled_error_by_itself_ends_the_run_with_it() -> None:
    async def source() -> AsyncIterator[PageContext]:
        yield PageContext(sample=0)
        raise asyncio.CancelledError("an inner task was cancelled")

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError, match="an inner task was cancelled"):
            await Pipeline[PageContext]([DoAsync()]).run_async(source(), workers=2)

    asyncio.run(main())


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_branch_error_can_be_copied(duplicate: Callable[[BranchError], BranchError]) -> None:
    error = BranchError([ValueError("no such page"), KeyError("title")])
    twin = duplicate(error)
    assert (str(twin), repr(twin.failures)) == (str(error), repr(error.failures))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_step_that_raises_cancelled_error_by_itself_fails_its_sample_only(workers: int) -> None:
    def fail(number: int) -> None:
        if number == 0:
            raise asyncio.CancelledError("an inner task was cancelled")

    for step in (Do, DoAsync):
        first, second = Pipeline([step(fail)]).run(pages(2), workers=workers)
        assert isinstance(first.error, asyncio.CancelledError)
        assert second.error is None


@pytest.mark.parametrize("way", ["run", "stream"])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("step", [Do, DoAsync])
def test_an_exit_in_the_foreground_stops_the_run_and_drains_what_was_done(
    step: AnyDo, error: BaseException, workers: int, way: str
) -> None:
    foreground: list[int] = []
    background: list[int] = []

    def leave(number: int) -> None:
        foreground.append(number)
        if number == 3:
            raise error

    pipeline = Pipeline([step(leave), variant(Do, boundary=True, lane="book")(background.append)])
    with pytest.raises(type(error)):
        list(pipeline.run(endless(), workers) if way == "run" else pipeline.stream(endless(), workers))
    assert background == sorted(set(foreground) - {3})
    assert background[:3] == [0, 1, 2]
    pipeline.run(pages(2), workers=workers)
    pipeline.wait_for_background()
    assert background[-2:] == [0, 1]


def test_an_exit_in_the_foreground_of_run_async_is_raised_there() -> None:
    def leave(number: int) -> None:
        if number == 3:
            raise SystemExit(3)

    async def run(pipeline: Pipeline[PageContext]) -> int:
        try:
            await pipeline.run_async(pages(10), workers=2)
        except SystemExit:
            return 3
        return 0

    for step in (Do, DoAsync):
        assert asyncio.run(run(Pipeline([step(leave)]))) == 3


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_cancelling_a_run_async_task_ends_its_samples_first(step: AnyDo) -> None:
    gate = Gate()
    left: list[int] = []

    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    def enter(number: int) -> object:
        if step is DoAsync:
            return wait_for_ever()
        gate(number)
        left.append(number)
        return None

    async def cancel() -> None:
        task = asyncio.create_task(Pipeline([step(enter)]).run_async(pages(50), workers=2))
        if step is Do:
            await asyncio.to_thread(gate.wait_until_inside, 2)
        else:
            await asyncio.sleep(0.01)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, gate.open)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(left) in ((0,) if step is DoAsync else (2,))

    asyncio.run(cancel())


INTERRUPTED = """
    import itertools, time
    from ace.pipeline import Pipeline, StepContext

    class Agent:
        requires, provides = {"sample"}, set()
        def __call__(self, ctx):
            print(f"agent {ctx.sample}\\n", end="", flush=True)
            time.sleep(0.05)
            return ctx

    class Learn:
        requires, provides, async_boundary, lane = {"sample"}, set(), True, "book"
        def __call__(self, ctx):
            time.sleep(0.02)
            print(f"learned {ctx.sample}\\n", end="", flush=True)
            return ctx

    try:
        Pipeline([Agent(), Learn()]).run((StepContext(n) for n in itertools.count()), workers=WORKERS)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize("workers", [1, 3])
def test_ctrl_c_in_a_terminal_stops_the_run_and_drains_what_was_done(workers: int) -> None:
    code = textwrap.dedent(INTERRUPTED).replace("WORKERS", str(workers))
    lines: list[str] = []
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        while "agent 5" not in lines:
            lines.append(process.stdout.readline().strip())
            assert process.poll() is None, lines
        os.kill(process.pid, signal.SIGINT)
        lines += process.stdout.read().split("\n")
    assert process.returncode == 0
    learned = [int(line.split()[1]) for line in lines if line.startswith("learned")]
    begun = [int(line.split()[1]) for line in lines if line.startswith("agent")]
    assert "interrupted" in lines
    assert learned == sorted(learned)
    # With one worker the interrupt falls into the step of one sample, which is lost; with more, into no step.
    assert len(begun) - len(learned) <= (1 if workers == 1 else 0)


def test_a_failing_run_leaves_nothing_behind() -> None:
    before = threading.active_count()

    def fail(number: int) -> None:
        raise ValueError(number)

    with Pipeline([Do(fail), variant(Do, boundary=True)()]) as pipeline:
        results = pipeline.run(pages(50), workers=8)
        assert [str(result.error) for result in results] == [str(number) for number in range(50)]
    wait_until(lambda: threading.active_count() <= before)
