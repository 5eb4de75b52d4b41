"""Cancellations and interrupts at awkward moments, and steps that block the engine's own loop."""

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from ace.pipeline import Branch, Pipeline, PipelineConfigError

from .sample_steps import Do, DoAsync, Gate, PageContext, pages, variant


def ends(action: Callable[[], object]) -> bool:
    """Whether an action comes to an end; if not, its thread is left behind."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(60)
    return not thread.is_alive()


INNER: dict[str, Callable[[], Pipeline[PageContext]]] = {
    "asynchronous background": lambda: Pipeline([variant(DoAsync, boundary=True)()], background_limit=1),
    "asynchronous lane": lambda: Pipeline([variant(DoAsync, lane="inner")()]),
    "call of an asynchronous pipeline": lambda: Pipeline(
        [Do(lambda number: Pipeline([DoAsync()])(PageContext(sample=number)))]
    ),
    "call of an asynchronous branch": lambda: Pipeline(
        [Do(lambda number: Branch(Do(), DoAsync())(PageContext(sample=number)))]
    ),
    "asynchronous foreground before an asynchronous lane": lambda: Pipeline(
        [DoAsync(), variant(DoAsync, boundary=True, lane="inner")()]
    ),
}


@pytest.mark.parametrize("name", INNER)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_asynchronous_step_may_block_its_loop_with_a_run_that_needs_a_loop(name: str, workers: int) -> None:
    inner = INNER[name]()

    def run(number: int) -> None:
        assert all(result.error is None for result in inner.run(pages(3), workers=workers))
        inner.wait_for_background()

    results: list[BaseException | None] = []
    outer = Pipeline([DoAsync(run)])
    assert ends(lambda: results.extend(result.error for result in outer.run(pages(2))))
    assert results == [None, None]


def test_cancelling_a_sample_that_waits_for_room_in_the_background_holds_nobody_up() -> None:
    gate = Gate()
    learned: list[int] = []
    pipeline = Pipeline[PageContext](
        [
            DoAsync(),
            variant(Do, boundary=True, max_workers=4)(gate),
            variant(Do, lane="book")(learned.append),
        ],
        background_limit=2,
    )

    async def main() -> None:
        running = asyncio.create_task(pipeline.run_async(pages(5), workers=4))
        await asyncio.to_thread(gate.wait_until_inside, 2)
        running.cancel()
        asyncio.get_running_loop().call_later(0.05, gate.open)
        with pytest.raises(asyncio.CancelledError):
            await running

    assert ends(lambda: asyncio.run(main()))
    pipeline.wait_for_background(timeout=60)
    assert learned == sorted(learned)
    assert len(learned) == pipeline.background_stats()["completed"]


CLOSED_LOOP = """
    import asyncio, logging, threading
    from ace.pipeline import Pipeline, StepContext

    entered, closed, told = threading.Event(), threading.Event(), threading.Event()

    class Telling(logging.StreamHandler):
        def emit(self, record):
            super().emit(record)
            told.set()

    class Linger:
        requires, provides = {"sample"}, set()
        def __call__(self, ctx):
            entered.set()
            closed.wait()
            return ctx

    async def source():
        yield StepContext(0)

    logging.getLogger().addHandler(Telling())
    pipeline = Pipeline([Linger()])
    loop = asyncio.new_event_loop()
    task = loop.create_task(pipeline.run_async(source()))
    while not entered.is_set():
        loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    closed.set()
    told.wait()
    print(len(pipeline.run([StepContext(n) for n in range(4)], workers=3)), flush=True)
"""


def test_a_loop_that_its_owner_closes_under_a_step_harms_no_later_run() -> None:
    # In a process of its own: what a closed loop leaves behind is complained of whenever it is collected.
    command = [sys.executable, "-c", textwrap.dedent(CLOSED_LOOP)]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert run.stdout == "4\n"
    assert "the end of work of the pipeline engine could not be reported" in run.stderr


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_an_input_that_cannot_be_iterated_raises_in_a_stream_too(step: type[Do]) -> None:
    class Unreadable:
        def __iter__(self) -> Iterator[PageContext]:
            raise OSError("no such file")

    async def collect() -> list[object]:
        return [result async for result in Pipeline([step()]).astream(Unreadable())]

    with pytest.raises(OSError, match="no such file"):
        list(Pipeline([step()]).stream(Unreadable()))
    with pytest.raises(OSError, match="no such file"):
        asyncio.run(collect())


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("way", ["run_async", "astream"])
@pytest.mark.parametrize("lane", ["book", None])
def test_a_cancelled_run_ends_only_when_its_steps_have(lane: str | None, way: str, times: int) -> None:
    gate = Gate()
    pipeline = Pipeline[PageContext]([DoAsync(), variant(Do, lane=lane)(gate)])

    async def collect() -> None:
        if way == "run_async":
            await pipeline.run_async(pages(3))
        async for _ in pipeline.astream(pages(3)):
            raise AssertionError("the first sample was cancelled")

    async def main() -> None:
        running = asyncio.create_task(collect())
        await asyncio.to_thread(gate.wait_until_inside, 1)
        for _ in range(times):
            running.cancel()
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.05, gate.open)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert gate.passed == [0]

    assert ends(lambda: asyncio.run(main()))
    assert gate.passed == [0]


def test_a_cancelled_branch_ends_only_when_its_plain_children_have() -> None:
    gate = Gate()
    pipeline = Pipeline[PageContext]([Branch(DoAsync(lambda number: asyncio.sleep(600)), Do(gate))])

    async def main() -> None:
        running = asyncio.create_task(pipeline.run_async(pages(1)))
        await asyncio.to_thread(gate.wait_until_inside, 1)
        running.cancel()
        asyncio.get_running_loop().call_later(0.05, gate.open)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert gate.passed == [0]

    assert ends(lambda: asyncio.run(main()))
    assert gate.passed == [0]


def test_stop_iteration_in_a_lane_is_an_error_of_its_sample() -> None:
    pipeline = Pipeline[PageContext]([DoAsync(), variant(Do, lane="book")(lambda number: next(iter(())))])
    errors: list[BaseException | None] = []
    assert ends(lambda: errors.extend(result.error for result in asyncio.run(pipeline.run_async(pages(2)))))
    assert [type(error) for error in errors] in ([StopIteration] * 2, [RuntimeError] * 2)


@pytest.mark.parametrize("kind", ["lane", "branch"])
def test_ctrl_c_waits_for_what_is_inside_a_step_on_another_thread(kind: str) -> None:
    events: list[str] = []
    interrupted = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    def work(number: int) -> None:
        events.append("in")
        while not interrupted.wait(0.1):  # a signal that comes just before a wait does not end it
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.1)  # a run that did not wait would end meanwhile
        events.append("out")

    step = variant(Do, lane="book")(work) if kind == "lane" else Branch(Do(), Do(work))
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            Pipeline[PageContext]([step]).run(pages(2))
    finally:
        signal.signal(signal.SIGINT, before)
    assert events == ["in", "out"]


def test_a_boundary_may_not_cut_a_lane() -> None:
    write = variant(Do, "Write", lane="book")
    apply = variant(Do, "Apply", boundary=True, lane="book")
    with pytest.raises(PipelineConfigError, match="the async boundary at step Apply splits lane 'book'"):
        Pipeline([write(), apply()])
