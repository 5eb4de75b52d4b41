"""Serial sections that samples pass in input order."""

import random
import threading
import time
from collections.abc import Callable

import pytest

from ace.pipeline import CancellationToken, Pipeline

from .sample_steps import AnyDo, Do, DoAsync, Gate, PageContext, pages, variant, wait_until


def dawdle(seed: int) -> Callable[[int], None]:
    """Return an action that takes up to 4 ms, repeatable for each sample."""
    return lambda number: time.sleep(random.Random(seed * 1000 + number).random() / 250)


class Overlaps:
    """Sees whether two samples are in a section at the same time."""

    def __init__(self) -> None:
        self._section = threading.Lock()
        self.order: list[int] = []

    def enter(self, number: int) -> None:
        assert self._section.acquire(blocking=False), "two samples are in the section"
        self.order.append(number)

    def leave(self, number: int) -> None:
        self._section.release()


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("foreground", [Do, DoAsync])
@pytest.mark.parametrize("writer", [Do, DoAsync])
def test_the_section_sees_one_sample_at_a_time_in_input_order(foreground: AnyDo, writer: AnyDo, workers: int) -> None:
    overlaps = Overlaps()
    write = variant(writer, lane="skillbook")
    pipeline = Pipeline(
        [
            foreground(dawdle(1)),
            variant(Do, "Reflect", boundary=True, max_workers=4)(dawdle(2)),
            write(overlaps.enter),
            write(dawdle(3)),
            write(overlaps.leave),
        ]
    )
    results = pipeline.run(pages(30), workers=workers)
    pipeline.wait_for_background()
    assert all(result.error is None for result in results)
    assert overlaps.order == list(range(30))


@pytest.mark.parametrize("foreground", [Do, DoAsync])
@pytest.mark.parametrize("writer", [Do, DoAsync])
def test_a_section_in_the_foreground_keeps_the_order_too(foreground: AnyDo, writer: AnyDo) -> None:
    overlaps = Overlaps()
    write = variant(writer, lane="skillbook")
    pipeline = Pipeline([foreground(dawdle(1)), write(overlaps.enter), write(overlaps.leave), foreground(dawdle(2))])
    results = pipeline.run(pages(30), workers=4)
    assert all(result.error is None for result in results)
    assert overlaps.order == list(range(30))


@pytest.mark.parametrize("place", ["foreground", "background", "section"])
def test_a_failing_sample_gives_up_its_turn(place: str) -> None:
    order: list[int] = []

    def fail_at(here: str) -> Callable[[int], None]:
        def act(number: int) -> None:
            time.sleep(random.Random(number).random() / 500)
            if place == here and number % 3 == 0:
                raise ValueError(number)

        return act

    write = variant(Do, "Write", lane="skillbook")
    pipeline = Pipeline(
        [
            Do(fail_at("foreground")),
            variant(Do, "Reflect", boundary=True, max_workers=4)(fail_at("background")),
            write(fail_at("section")),
            write(order.append),
        ]
    )
    results = pipeline.run(pages(20), workers=4)
    pipeline.wait_for_background()
    assert [result.sample for result in results if result.error] == [n for n in range(20) if n % 3 == 0]
    assert order == [n for n in range(20) if n % 3]


def test_a_cancelled_sample_gives_up_its_turn() -> None:
    order: list[int] = []
    token = CancellationToken()

    def cancel(number: int) -> None:
        if number == 4:
            token.cancel()

    write = variant(Do, "Write", boundary=True, lane="skillbook")
    pipeline = Pipeline([Do(cancel), Do(), write(order.append)])
    pipeline.run(pages(10), cancel_token=token)
    pipeline.wait_for_background()
    assert order == [0, 1, 2, 3]
    pipeline.run(pages(3))
    pipeline.wait_for_background()
    assert order == [0, 1, 2, 3, 0, 1, 2]


def test_runs_that_follow_each_other_keep_their_order() -> None:
    order: list[int] = []
    reflect = variant(Do, "Reflect", boundary=True, max_workers=4)
    pipeline = Pipeline([reflect(dawdle(5)), variant(Do, lane="skillbook")(order.append)])
    for start in (0, 10, 20):
        pipeline.run([ctx.replace(sample=start + ctx.sample) for ctx in pages(10)])
    pipeline.wait_for_background()
    assert order == list(range(30))


def test_two_pipelines_share_a_lane_by_name_and_key() -> None:
    overlaps = Overlaps()
    book = object()

    def build(first: AnyDo, others: AnyDo) -> Pipeline[PageContext]:
        enter = variant(first, lane="skillbook")(overlaps.enter)
        enter.lane_key = book  # the other steps of the section name none, and take this one
        pause, leave = (variant(others, lane="skillbook")(act) for act in (dawdle(7), overlaps.leave))
        return Pipeline([variant(Do, boundary=True)(), enter, pause, leave])

    pipelines = [build(Do, Do), build(DoAsync, DoAsync), build(Do, DoAsync), build(DoAsync, DoAsync)]
    for pipeline in pipelines:
        pipeline.run(pages(10))
    for pipeline in pipelines:
        pipeline.wait_for_background()
        assert pipeline.background_stats()["failed"] == 0
    assert sorted(overlaps.order) == sorted(list(range(10)) * 4)


def test_lanes_with_different_keys_never_wait_for_each_other() -> None:
    gate = Gate()
    write = variant(Do, "Write", boundary=True, lane="skillbook")  # one class, whose own limit is 1
    stuck, free = write(gate), write()
    stuck.lane_key, free.lane_key = object(), object()
    first, second = Pipeline([stuck]), Pipeline([free])
    first.run(pages(2))
    gate.wait_until_inside(1)
    second.run(pages(5))
    second.wait_for_background()
    assert first.background_stats()["completed"] == 0
    gate.open()
    first.wait_for_background()


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("foreground", [Do, DoAsync])
def test_a_full_background_leaves_room_for_the_sample_that_all_others_wait_for(foreground: AnyDo, limit: int) -> None:
    order: list[int] = []
    gate = Gate()

    def hold_first(number: int) -> None:
        if number == 0:
            gate(number)

    steps = [Do(hold_first), foreground()] if foreground is DoAsync else [Do(hold_first)]
    write = variant(Do, "Write", lane="skillbook")
    pipeline = Pipeline([*steps, variant(Do, boundary=True)(), write(order.append)], background_limit=limit)
    running = threading.Thread(target=lambda: pipeline.run(pages(12), workers=4))
    running.start()
    gate.wait_until_inside(1)
    wait_until(lambda: pipeline.background_stats()["queued"] == max(0, min(limit - 1, 11)))
    gate.open()
    running.join()
    pipeline.wait_for_background()
    assert order == list(range(12))


def test_a_paused_stream_does_not_block_another_run_on_its_pipeline() -> None:
    order: list[int] = []
    pipeline = Pipeline([Do(), variant(Do, boundary=True, lane="skillbook")(order.append)])
    stream = pipeline.stream(pages(50), workers=3)
    next(stream)
    pipeline.run([ctx.replace(sample=100 + ctx.sample) for ctx in pages(5)])
    wait_until(lambda: 104 in order)
    assert [number for number in order if number >= 100] == [100, 101, 102, 103, 104]
    assert len(list(stream)) == 49
    pipeline.wait_for_background()
    assert [number for number in order if number < 100] == list(range(50))
