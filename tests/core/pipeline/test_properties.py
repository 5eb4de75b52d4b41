"""Whatever the pipeline, the delays, the failures, the cancellations and the workers."""

import asyncio
import threading
import time
from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled, PipelineError, SampleResult

from .sample_steps import AnyDo, Do, DoAsync, PageContext, pages, variant


@dataclass(frozen=True)
class Shape:
    """A random pipeline and the way it is run."""

    kinds: tuple[str, ...]  # of the steps: "plain", "async", "lane", "async lane", "branch" or "nested"
    boundary: int | None
    limits: tuple[int, ...]
    workers: int
    background_limit: int
    count: int
    failures: frozenset[tuple[int, int]]  # (step, sample)
    delays: tuple[int, ...]  # in tenths of a millisecond, taken in turn
    cancelled_at: tuple[int, int] | None  # (step, sample)
    way: str


KINDS = ["plain", "async", "lane", "async lane", "branch", "nested"]


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
    places = st.tuples(st.integers(0, len(kinds) - 1), st.integers(0, 14))
    return Shape(
        kinds=tuple(kinds),
        boundary=draw(st.none() | st.integers(0, len(kinds) - 1)),
        limits=tuple(draw(st.lists(st.integers(1, 4), min_size=len(kinds), max_size=len(kinds)))),
        workers=draw(st.integers(1, 5)),
        background_limit=draw(st.sampled_from([1, 2, 3, 1000])),
        count=draw(st.integers(0, 15)),
        failures=frozenset(draw(st.sets(places, max_size=6))),
        delays=tuple(draw(st.lists(st.integers(0, 8), min_size=1, max_size=7))),
        cancelled_at=draw(st.none() | places),
        way=draw(st.sampled_from(["run", "run_async", "stream", "astream"])),
    )


class Laboratory:
    """Builds the pipeline of a shape, and sees what happens in its steps."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.token = CancellationToken()
        self.visits: list[list[int]] = [[] for _ in shape.kinds]
        self.inside: Counter[int] = Counter()
        self.too_many: list[int] = []
        self._lock = threading.Lock()
        self._turn = 0

    def build(self) -> Pipeline[PageContext]:
        return Pipeline[PageContext](
            [self._step(index) for index in range(len(self.shape.kinds))],
            background_limit=self.shape.background_limit,
        )

    def _step(self, index: int) -> Do | DoAsync:
        kind = self.shape.kinds[index]
        base: AnyDo = DoAsync if kind.startswith("async") else Do
        step = variant(
            base,
            f"Step{index}",
            boundary=index == self.shape.boundary,
            max_workers=self.shape.limits[index],
            # Each lane section has a lane of its own.
            lane=f"lane {index}" if kind.endswith("lane") else None,
        )(self._asynchronously(index) if kind.startswith("async") else lambda number: self._visit(index, number))
        if kind in ("branch", "nested") and index != self.shape.boundary:
            pipeline = Pipeline([step])
            return Pipeline[PageContext]().branch(pipeline, Do()) if kind == "branch" else pipeline  # type: ignore[return-value]
        return step

    def _asynchronously(self, index: int):  # type: ignore[no-untyped-def]  # returns what DoAsync takes
        async def visit(number: int) -> None:
            await asyncio.sleep(self._delay())
            self._visit(index, number)

        return lambda number: visit(number)

    def _delay(self) -> float:
        with self._lock:
            self._turn += 1
            return self.shape.delays[self._turn % len(self.shape.delays)] / 10_000

    def _visit(self, index: int, number: int) -> None:
        shape = self.shape
        with self._lock:
            self.visits[index].append(number)
            self.inside[index] += 1
            if self.inside[index] > self._allowed(index):
                self.too_many.append(index)
        try:
            time.sleep(self._delay())
            if shape.cancelled_at == (index, number):
                self.token.cancel()
            if (index, number) in shape.failures:
                raise ValueError((index, number))
        finally:
            with self._lock:
                self.inside[index] -= 1

    def _allowed(self, index: int) -> int:
        if self.shape.kinds[index].endswith("lane"):
            return 1
        if self.shape.boundary is not None and index >= self.shape.boundary:
            return self.shape.limits[index]
        return self.shape.workers

    def run(self, pipeline: Pipeline[PageContext]) -> list[SampleResult[PageContext]]:
        contexts, workers, token = pages(self.shape.count), self.shape.workers, self.token
        if self.shape.way == "run":
            return pipeline.run(contexts, workers=workers, cancel_token=token)
        if self.shape.way == "run_async":
            return asyncio.run(pipeline.run_async(iter(contexts), workers=workers, cancel_token=token))
        if self.shape.way == "stream":
            stream = pipeline.stream(iter(contexts), workers=workers, cancel_token=token)
            return sorted(stream, key=lambda result: int(result.sample))

        async def collect() -> list[SampleResult[PageContext]]:
            results = pipeline.astream(contexts, workers=workers, cancel_token=token)
            return sorted([result async for result in results], key=lambda result: int(result.sample))

        return asyncio.run(collect())


@settings(max_examples=150)
@given(shapes())
def test_every_sample_has_one_result_lanes_keep_the_order_and_limits_hold(shape: Shape) -> None:
    laboratory = Laboratory(shape)
    pipeline = laboratory.build()
    results = laboratory.run(pipeline)
    pipeline.wait_for_background()

    assert [result.sample for result in results] == list(range(shape.count))
    assert laboratory.too_many == []
    for index, kind in enumerate(shape.kinds):
        assert len(laboratory.visits[index]) == len(set(laboratory.visits[index]))
        if kind.endswith("lane"):
            assert laboratory.visits[index] == sorted(laboratory.visits[index])

    for result in results:
        reached = [index for index, visited in enumerate(laboratory.visits) if result.sample in visited]
        assert reached == list(range(len(reached))), "a step was passed over"
        failed = [index for index in reached if (index, result.sample) in shape.failures]
        if failed:
            assert isinstance(result.error, (ValueError, PipelineError))
            assert reached[-1] == failed[0]
            assert result.output is None
        elif result.error is not None:
            assert isinstance(result.error, PipelineCancelled)
            assert shape.cancelled_at is not None
            assert result.output is None
            assert shape.boundary is None or len(reached) <= shape.boundary
        else:
            assert len(reached) == len(shape.kinds)
            assert result.output is not None
            assert result.failed_at is None

    stats = pipeline.background_stats()
    assert stats["active"] == stats["queued"] == 0
    if shape.boundary is None:
        assert stats["completed"] == 0
    else:
        assert stats["completed"] == stats["failed"] + sum(result.error is None for result in results)
