"""What a step in a lane is offered of the samples that wait behind it."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace.pipeline import CancellationToken, LaneQueue, Pipeline, WaitingSample, lane_queue

from .sample_steps import AnyDo, Do, DoAsync, Gate, PageContext, pages, variant, wait_until

MANY = 1000
trace_var: ContextVar[str] = ContextVar("trace_var", default="")


def queue() -> LaneQueue:
    found = lane_queue()
    assert found is not None
    return found


def numbers(samples: list[WaitingSample]) -> list[int]:
    return [sample.context.sample for sample in samples]


def waiting(most: int = MANY) -> list[int]:
    return numbers(queue().waiting(most))


def test_there_is_no_queue_outside_a_lane() -> None:
    seen: list[object] = []
    pipeline = Pipeline(
        [
            Do(lambda _: seen.append(lane_queue())),
            variant(Do, lane="skillbook")(lambda _: seen.append(waiting())),
            Do(lambda _: seen.append(lane_queue())),
            variant(Do, boundary=True)(lambda _: seen.append(lane_queue())),
        ]
    )
    pipeline.run(pages(1))
    pipeline.wait_for_background()
    assert seen == [None, [], None, None]
    assert lane_queue() is None


@pytest.mark.parametrize("writer", [Do, DoAsync])
def test_there_is_no_queue_after_a_lane_in_the_background(writer: AnyDo) -> None:
    seen: list[bool] = []

    def note(_: object) -> None:
        seen.append(lane_queue() is not None)

    first = variant(writer, boundary=True, lane="skillbook")
    lanes = (None, "log", "index")
    pipeline = Pipeline([first(note), *(variant(writer, lane=lane)(note) for lane in lanes)])
    pipeline.run(pages(1), on_sample_end=note)
    pipeline.wait_for_background()
    assert seen == [True, False, True, True, False]
    assert lane_queue() is None


@pytest.mark.parametrize("writer", [Do, DoAsync])
def test_those_that_wait_are_offered_in_input_order_until_they_enter(writer: AnyDo) -> None:
    reflected: list[int] = []
    offered: list[list[int]] = []

    def write(number: int) -> None:
        if number == 0:
            wait_until(lambda: len(reflected) == 6)
            wait_until(lambda: len(waiting()) == 5)
        offered.append(waiting())
        offered.append(waiting(2))

    reflect = variant(Do, "Reflect", boundary=True, max_workers=6)
    pipeline = Pipeline([reflect(reflected.append), variant(writer, lane="skillbook")(write)])
    pipeline.run(pages(6))
    pipeline.wait_for_background()
    expected = [[range(first + 1, 6)[:most] for most in (MANY, 2)] for first in range(6)]
    assert offered == [list(part) for pair in expected for part in pair]


def test_a_sample_that_is_ahead_of_others_is_offered_too() -> None:
    """Sample 1 is still in an earlier step, and sample 2 waits for the lane already."""
    gate = Gate()
    offered: list[list[int]] = []

    def reflect(number: int) -> None:
        if number == 1:
            gate(number)

    def write(number: int) -> None:
        if number == 0:
            wait_until(lambda: waiting() == [2])
            gate.open()
            wait_until(lambda: waiting() == [1, 2])
        offered.append(waiting())

    pipeline = Pipeline(
        [variant(Do, "Reflect", boundary=True, max_workers=3)(reflect), variant(Do, lane="skillbook")(write)]
    )
    pipeline.run(pages(3))
    pipeline.wait_for_background()
    assert offered == [[1, 2], [2], []]


def test_the_foreground_offers_its_samples_too() -> None:
    arrived = threading.Event()
    offered: list[list[int]] = []

    def write(number: int) -> None:
        if number == 0:
            wait_until(lambda: waiting() == [1, 2])
            arrived.set()
        offered.append(waiting())

    pipeline = Pipeline([Do(), variant(Do, lane="skillbook")(write)])
    pipeline.run(pages(3), workers=3)
    assert offered == [[1, 2], [2], []]
    offered.clear()
    asyncio.run(pipeline.run_async(pages(3), workers=3))
    assert offered == [[1, 2], [2], []]


def test_a_sample_that_fails_before_the_lane_is_not_offered() -> None:
    seen: list[int] = []
    ended: list[int] = []

    def reflect(number: int) -> None:
        if number == 1:
            raise ValueError(number)

    def write(number: int) -> None:
        if number == 0:
            wait_until(lambda: 1 in ended and waiting() == [2])
        seen.append(number)

    pipeline = Pipeline(
        [variant(Do, "Reflect", boundary=True, max_workers=3)(reflect), variant(Do, lane="skillbook")(write)]
    )
    pipeline.run(pages(3), on_sample_end=lambda result: ended.append(result.index))
    pipeline.wait_for_background()
    assert seen == [0, 2]


def test_a_task_that_is_cancelled_takes_its_samples_out_of_the_queue() -> None:
    cancelling = threading.Event()
    offered: list[list[int]] = []

    def write(number: int) -> None:
        wait_until(lambda: waiting() == [1])
        cancelling.set()
        wait_until(lambda: not waiting())
        offered.append(waiting())

    pipeline = Pipeline[PageContext]([DoAsync(), variant(Do, lane="skillbook")(write)])

    async def cancel_while_one_waits() -> None:
        task = asyncio.ensure_future(pipeline.run_async(pages(2), workers=2))
        while not cancelling.is_set():  # noqa: ASYNC110  # another thread sets it
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_while_one_waits())
    assert offered == [[]]


def test_a_watcher_is_told_of_each_arrival_while_it_watches() -> None:
    gate = Gate()
    told: list[list[int]] = []
    reflected: list[int] = []

    def reflect(number: int) -> None:
        if number:
            gate(number)
        reflected.append(number)

    def write(number: int) -> None:
        if number == 0:
            here = queue()
            with here.watched(lambda: told.append(numbers(here.waiting(MANY)))):
                gate.open()
                wait_until(lambda: len(told) >= 4)
            told.append([])

    pipeline = Pipeline(
        [variant(Do, "Reflect", boundary=True, max_workers=5)(reflect), variant(Do, lane="skillbook")(write)]
    )
    pipeline.run(pages(5))
    pipeline.wait_for_background()
    during, behind = told[:-1], told[-1]
    assert max(during, key=len) == [1, 2, 3, 4]
    assert behind == []


def test_the_variables_of_a_sample_come_with_it() -> None:
    found: list[tuple[int, str]] = []

    def write(number: int) -> None:
        if number == 0:
            wait_until(lambda: len(waiting()) == 2)
            found.extend((item.context.sample, item.variables.run(trace_var.get)) for item in queue().waiting(MANY))
            for item in queue().waiting(MANY):
                item.variables.run(trace_var.set, "changed ahead")
        found.append((number, trace_var.get()))

    pipeline = Pipeline(
        [
            Do(lambda number: trace_var.set(f"trace {number}")),
            variant(Do, "Reflect", boundary=True, max_workers=3)(),
            variant(Do, lane="skillbook")(write),
        ]
    )
    pipeline.run(pages(3))
    pipeline.wait_for_background()
    assert found == [(1, "trace 1"), (2, "trace 2"), (0, "trace 0"), (1, "trace 1"), (2, "trace 2")]


def test_runs_that_share_a_lane_are_not_offered_to_each_other() -> None:
    book = object()
    gate = Gate()
    offered: list[list[int]] = []

    def write(number: int) -> None:
        if number == 0:
            gate(number)
        offered.append(waiting())

    def pipeline() -> Pipeline[PageContext]:
        step = variant(Do, boundary=True, lane="skillbook")(write)
        step.lane_key = book
        return Pipeline([step])

    first, second = pipeline(), pipeline()
    first.run(pages(1))
    gate.wait_until_inside(1)
    second.run([ctx.replace(sample=ctx.sample + 10) for ctx in pages(2)])
    gate.open()
    first.wait_for_background()
    second.wait_for_background()
    assert offered[0] == []
    assert offered[1] in ([11], []) and offered[2] == []


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 12),
    limit=st.integers(1, 5),
    most=st.integers(0, 5),
    is_async=st.booleans(),
    in_background=st.booleans(),
    failing=st.sets(st.tuples(st.sampled_from(["before", "inside"]), st.integers(0, 11)), max_size=4),
    delays=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    cancelled_at=st.none() | st.integers(0, 11),
)
def test_whatever_happens_only_those_are_offered_that_have_not_entered(
    count: int,
    limit: int,
    most: int,
    is_async: bool,
    in_background: bool,
    failing: set[tuple[str, int]],
    delays: list[int],
    cancelled_at: int | None,
) -> None:
    entered: list[int] = []
    problems: list[str] = []
    token = CancellationToken()

    def before(number: int) -> None:
        time.sleep(delays[number % len(delays)] / 2000)
        if ("before", number) in failing:
            raise ValueError(number)

    def inside(number: int) -> None:
        entered.append(number)
        if number == cancelled_at:
            token.cancel()
        arrived: list[list[int]] = []
        here = queue()
        with here.watched(lambda: arrived.append(numbers(here.waiting(MANY)))):
            offered = waiting(most)
            if offered != sorted(offered) or len(offered) > most or set(offered) & set(entered):
                problems.append(f"{offered} were offered to {number} after {entered}")
            time.sleep(delays[number % len(delays)] / 4000)
        problems.extend(f"{group} arrived at {number}" for group in arrived if set(group) & set(entered))
        if ("inside", number) in failing:
            raise ValueError(number)

    foreground: Callable[..., Any] = DoAsync if is_async else Do
    reflect = variant(foreground, "Reflect", boundary=in_background, max_workers=limit)  # type: ignore[type-var]
    write = variant(foreground, "Write", lane="skillbook")  # type: ignore[type-var]
    pipeline = Pipeline([reflect(before), write(inside)])
    results = pipeline.run(pages(count), workers=limit, cancel_token=token)
    pipeline.wait_for_background()
    assert not problems
    assert entered == sorted(entered)
    failed = {number for _, number in failing}
    if cancelled_at is None:
        assert [result.index for result in results if result.error is None] == [
            number for number in range(count) if number not in failed
        ]


def test_samples_may_arrive_while_garbage_is_collected() -> None:
    # The collector runs in the middle of whatever allocates, and its callbacks let other threads run.
    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0.0001)

    look = variant(Do, boundary=True, lane="skillbook")(lambda _: waiting())
    pipeline = Pipeline([Do(lambda _: time.sleep(0.001)), look])
    held = [(number, number) for number in range(10_000)]  # small tuples that were freed are used again without it
    threshold = gc.get_threshold()
    gc.callbacks.append(give_way)
    try:
        gc.set_threshold(1)
        results = pipeline.run(pages(300))
        pipeline.wait_for_background()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(give_way)
    assert [result.error for result in results] == [None] * 300
    assert len(held) == 10_000
