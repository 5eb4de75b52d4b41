"""A logging handler that raises loses no sample, wherever the engine logs."""

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from ace.pipeline import BranchError, Pipeline, SampleResult, StepContext

from .sample_steps import AnyDo, Do, PageContext, busy_threads, pages, variant, wait_until
from .test_sample_ends import Call, kinds, ways


class Broken(logging.Handler):
    """Raises whatever it is given, as one does whose terminal has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(str(record.msg))
        raise BrokenPipeError("the terminal has gone")


@pytest.fixture
def broken() -> Iterator[Broken]:
    handler = Broken()
    logger = logging.getLogger("ace.pipeline")
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    yield handler
    logger.removeHandler(handler)
    logger.propagate = propagates


def fail(*args: object) -> None:
    raise RuntimeError("no display")


class BrokenHook:
    def before_step(self, step_name: str, ctx: StepContext) -> None:
        fail()

    def after_step(self, step_name: str, ctx: StepContext) -> None:
        fail()


class BrokenObserver:
    def step_started(self, step_name: str, ctx: StepContext, background: bool) -> None:
        fail()

    def step_ended(
        self, step_name: str, ctx: StepContext, background: bool, seconds: float, error: BaseException | None
    ) -> None:
        fail()


def everything_ended(pipeline: Pipeline[PageContext], results: list[SampleResult[PageContext]]) -> bool:
    pipeline.wait_for_background(timeout=60)
    stats = pipeline.background_stats()
    return [result.error for result in results] == [None] * len(results) and stats["completed"] == len(results)


def two_lanes(step: AnyDo, **options: object) -> Pipeline[PageContext]:
    steps = [step(), variant(step, lane="front")(), variant(step, boundary=True, lane="back")()]
    return Pipeline[PageContext](steps, **options)  # type: ignore[arg-type]  # passed on as they are


@ways
@kinds
@pytest.mark.parametrize("workers", [1, 3])
def test_a_hook_that_raises_where_it_cannot_be_logged(way: Call, step: AnyDo, workers: int, broken: Broken) -> None:
    pipeline = two_lanes(step, hooks=[BrokenHook()])
    assert everything_ended(pipeline, way(pipeline, pages(5), workers=workers))
    assert len(broken.messages) == 5 * 4


@ways
@kinds
@pytest.mark.parametrize("workers", [1, 3])
def test_a_step_observer_that_raises_where_it_cannot_be_logged(
    way: Call, step: AnyDo, workers: int, broken: Broken
) -> None:
    pipeline = two_lanes(step, step_observer=BrokenObserver())
    assert everything_ended(pipeline, way(pipeline, pages(5), workers=workers))
    assert len(broken.messages) == 5 * 6


@ways
@kinds
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("callback", ["on_sample_done", "on_sample_end"])
def test_a_callback_that_raises_where_it_cannot_be_logged(
    way: Call, step: AnyDo, workers: int, callback: str, broken: Broken
) -> None:
    pipeline = two_lanes(step)
    results = way(pipeline, pages(5), workers=workers, **{callback: fail})
    assert everything_ended(pipeline, results)
    assert len(broken.messages) == 5


def test_a_worker_that_gets_no_thread_where_that_cannot_be_logged(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Thread.start
    count = 0

    def start(self: threading.Thread) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise RuntimeError("can't start new thread")
        started(self)

    pipeline = Pipeline[PageContext]([Do()])
    wait_until(lambda: busy_threads() == 0)  # idle ones have ended, so that each has to be started
    monkeypatch.setattr(threading.Thread, "start", start)
    results = pipeline.run(pages(5), workers=3)
    assert [result.error for result in results] == [None] * 5
    assert broken.messages


def test_an_interrupted_run_waits_for_its_background_where_that_cannot_be_logged(broken: Broken) -> None:
    begun = threading.Event()
    kept: list[int] = []

    def interrupt(number: int) -> None:
        if number == 1:
            assert begun.wait(timeout=60)
            raise KeyboardInterrupt

    def keep(number: int) -> None:
        begun.set()
        wait_until(lambda: bool(broken.messages))
        kept.append(number)

    with pytest.raises(KeyboardInterrupt):
        Pipeline[PageContext]([Do(interrupt), variant(Do, boundary=True)(keep)]).run(pages(3))
    assert kept == [0]


class Unprintable(Exception):
    """An error that cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def test_an_error_in_a_branch_that_cannot_be_shown_is_still_its_error() -> None:
    def raise_it(number: int) -> None:
        raise Unprintable

    [result] = Pipeline[PageContext]([]).branch(Do(raise_it), Do()).run(pages(1))
    assert isinstance(result.error, BranchError)
    assert isinstance(result.cause, Unprintable)
    assert "Unprintable" in str(result.error)


def test_values_in_a_merge_conflict_that_cannot_be_shown_are_still_a_conflict() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    class Write:
        requires = frozenset({"sample"})
        provides = frozenset({"text"})

        def __call__(self, ctx: PageContext) -> PageContext:
            return ctx.replace(text=Odd())

    [result] = Pipeline[PageContext]([]).branch(Write(), Write()).run(pages(1))
    assert "wrote different values to field 'text'" in str(result.error)
    assert "Odd" in str(result.error)


def test_a_callback_that_raises_for_a_sample_that_cannot_be_shown() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    [result] = Pipeline[PageContext]([Do()]).run([PageContext(sample=Odd())], on_sample_done=fail)
    assert result.error is None


def test_errors_that_cannot_be_shown_pass_hooks_and_callbacks(caplog: pytest.LogCaptureFixture) -> None:
    class Hook(BrokenHook):
        def before_step(self, step_name: str, ctx: StepContext) -> None:
            raise Unprintable

    def raise_it(result: object) -> None:
        raise Unprintable

    pipeline = Pipeline[PageContext]([Do(), variant(Do, boundary=True)()], hooks=[Hook()])
    results = asyncio.run(pipeline.run_async(pages(2), on_sample_done=raise_it, on_sample_end=raise_it))
    assert everything_ended(pipeline, results)
