"""Limits, turns and loops when several things happen at once."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from ace.pipeline import Pipeline

from .sample_steps import Do, DoAsync, Gate, PageContext, pages, variant, wait_until


def test_a_sample_that_waits_for_the_last_place_gets_it_when_the_one_before_fails() -> None:
    gate = Gate()
    entered: list[int] = []

    def fail_first(number: int) -> None:
        if number == 0:
            gate(number)
            raise ValueError(number)

    pipeline = Pipeline([Do(fail_first), variant(Do, boundary=True)(entered.append)], background_limit=1)
    running = threading.Thread(target=lambda: pipeline.run(pages(2), workers=2), daemon=True)
    running.start()
    gate.wait_until_inside(1)
    wait_until(lambda: pipeline._runs.background._changes.waiting == 1)  # no public sign of it; or: time.sleep(0.2)
    gate.open()
    running.join(60)
    assert not running.is_alive()
    pipeline.wait_for_background()
    assert entered == [1]


def test_an_asynchronous_background_step_never_has_more_samples_than_its_limit() -> None:
    inside = most = 0
    both_inside = asyncio.Event()

    async def overlap() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 2:
            both_inside.set()
        await both_inside.wait()  # the first one waits for the second, however late that is
        await asyncio.sleep(0.01)
        inside -= 1

    step = variant(DoAsync, boundary=True, max_workers=2)
    pipeline = Pipeline([step(lambda _: overlap())])
    pipeline.run(pages(12))
    pipeline.wait_for_background()
    assert most == 2


def test_an_exit_in_run_async_drains_the_background_first() -> None:
    ended: list[int] = []

    def stop(number: int) -> None:
        if number == 3:
            raise SystemExit(3)

    def slow(number: int) -> None:
        time.sleep(0.05)
        ended.append(number)

    pipeline = Pipeline([Do(stop), variant(Do, boundary=True)(slow)])

    async def main() -> None:
        with pytest.raises(SystemExit):
            await pipeline.run_async(pages(6))
        assert ended == [0, 1, 2]

    asyncio.run(main())


def test_a_run_never_waits_for_the_turn_of_a_run_that_is_still_in_its_foreground() -> None:
    gate = Gate()
    order: list[int] = []

    def hold(number: int) -> None:
        if number == 0:
            gate(number)

    pipeline = Pipeline([Do(hold), variant(Do, boundary=True, lane="book")(order.append)])
    first = threading.Thread(target=lambda: pipeline.run(pages(1)))
    first.start()
    gate.wait_until_inside(1)
    pipeline.run([ctx.replace(sample=100 + ctx.sample) for ctx in pages(3)])
    try:
        wait_until(lambda: len(order) >= 3)
        assert order == [100, 101, 102]
    finally:
        gate.open()
        first.join()


def test_asynchronous_steps_that_never_wait_do_not_keep_the_loop_to_themselves() -> None:
    class Never:
        requires = provides = frozenset[str]()

        async def __call__(self, ctx: PageContext) -> PageContext:
            return ctx

    ticks: list[int] = []

    async def main() -> None:
        running = asyncio.create_task(Pipeline([Never()]).run_async(pages(10_000)))
        while not running.done():
            ticks.append(1)
            await asyncio.sleep(0)

    asyncio.run(main())
    assert len(ticks) > 100


def test_the_key_of_a_section_may_stand_on_any_of_its_steps() -> None:
    book = object()
    gate = Gate()
    order: list[int] = []
    write = variant(Do, boundary=True, lane="book")
    after = variant(Do, lane="book")
    keyless, keyed = write(gate), after()
    keyed.lane_key = book
    alone = write(order.append)
    alone.lane_key = book
    first, second = Pipeline([keyless, keyed]), Pipeline([alone])
    first.run(pages(1))
    gate.wait_until_inside(1)
    second.run(pages(1))
    time.sleep(0.1)
    shares = order == []
    gate.open()
    first.wait_for_background()
    second.wait_for_background()
    assert shares


def test_an_asynchronous_stream_holds_few_results_that_nobody_takes() -> None:
    drawn: list[int] = []

    def source() -> Iterator[PageContext]:
        for ctx in pages(500):
            drawn.append(1)
            yield ctx

    async def main() -> None:
        stream = Pipeline([DoAsync()]).astream(source(), workers=2)
        async for _ in stream:
            break
        await asyncio.sleep(0.3)
        assert len(drawn) <= 2 * 2 + 1 + 1
        await stream.aclose()

    asyncio.run(main())


def test_a_cancelled_sample_that_waits_for_its_turn_never_runs() -> None:
    book, gate = object(), Gate()
    seen: list[int] = []
    write = variant(Do, lane="book")
    holding, waiting = write(gate), write(seen.append)
    holding.lane_key = waiting.lane_key = book
    holder = threading.Thread(target=lambda: Pipeline([holding]).run(pages(1)))
    holder.start()
    gate.wait_until_inside(1)
    pipeline = Pipeline[PageContext]([DoAsync(), waiting])

    async def main() -> None:
        running = asyncio.create_task(pipeline.run_async(pages(1)))
        await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    gate.open()
    holder.join()
    pipeline.run([pages(8)[7]])  # comes behind it in the lane
    assert seen == [7]
