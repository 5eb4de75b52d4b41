"""The limit of a step class holds inside nested pipelines and branches behind a boundary, too."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from ace.pipeline import Branch, Pipeline, StepContext
from ace.pipeline.limiter import Limiter

from .sample_steps import AnyDo, Do, DoAsync, Gate, PageContext, pages, variant, wait_until
from .test_interruptions import ends

STEPS = [Do, DoAsync]


class Door:
    """Counts who is inside a step, whatever its kind, and has everybody stay for a moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most_inside = 0
        self.passed: list[int] = []

    def action(self, kind: AnyDo) -> Callable[[int], object]:
        return self._stay_async if issubclass(kind, DoAsync) else self._stay

    def _stay(self, number: int) -> None:
        self._enter()
        threading.Event().wait(0.002)
        self._leave(number)

    async def _stay_async(self, number: int) -> None:
        self._enter()
        await asyncio.sleep(0.002)
        self._leave(number)

    def _enter(self) -> None:
        with self._lock:
            self._inside += 1
            self.most_inside = max(self.most_inside, self._inside)

    def _leave(self, number: int) -> None:
        with self._lock:
            self._inside -= 1
            self.passed.append(number)


Nest = Callable[[AnyDo, Callable[[int], object]], object]

NESTS: dict[str, Nest] = {
    "pipeline": lambda kind, action: Pipeline[PageContext]([kind(action)]),
    "pipeline in a pipeline": lambda kind, action: Pipeline[PageContext]([Pipeline[PageContext]([kind(action)])]),
    "branch": lambda kind, action: Branch[PageContext](kind(action), kind(action)),
    "branch in a pipeline": lambda kind, action: Pipeline[PageContext]([Branch[PageContext](kind(action), Do())]),
    "pipeline in a branch beside the other kind": lambda kind, action: Branch[PageContext](
        Pipeline[PageContext]([kind(action)]), Do(), DoAsync()
    ),
}


def start() -> Do:
    """A step that only opens the background."""
    return variant(Do, "Start", boundary=True)()


def run_through(pipeline: Pipeline[PageContext]) -> None:
    pipeline.run(pages(3))
    pipeline.wait_for_background()


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("limit", [1, 2])
def test_a_class_that_stands_alone_and_inside_has_one_limit(limit: int, kind: AnyDo, nest: str) -> None:
    counted = variant(kind, "Counted", max_workers=limit)
    door = Door()
    alone = Pipeline[PageContext]([start(), counted(door.action(counted))])
    inside = Pipeline[PageContext]([start(), NESTS[nest](counted, door.action(counted))])  # type: ignore[list-item]
    also_inside = Pipeline[PageContext]([start(), Pipeline[PageContext]([counted(door.action(counted))])])
    results = []
    for pipeline in (alone, inside, also_inside):
        results += pipeline.run(pages(8))
    for pipeline in (alone, inside, also_inside):
        pipeline.wait_for_background()
    assert [result.error for result in results] == [None] * 24
    assert len(door.passed) == (32 if nest == "branch" else 24)
    assert door.most_inside <= limit


@pytest.mark.parametrize("kind", STEPS)
def test_two_children_of_a_class_with_one_place_take_turns(kind: AnyDo) -> None:
    counted = variant(kind, "Counted")
    door = Door()
    branch = Branch[PageContext](counted(door.action(counted)), counted(door.action(counted)))
    with Pipeline[PageContext]([start(), branch]) as pipeline:
        results = pipeline.run(pages(5))
    assert [result.error for result in results] == [None] * 5
    assert (len(door.passed), door.most_inside) == (10, 1)


@pytest.mark.parametrize("kind", STEPS)
def test_a_place_is_held_only_inside_the_inner_step(kind: AnyDo) -> None:
    counted = variant(kind, "Counted")
    gate = Gate()
    nested = Pipeline[PageContext]([counted(), variant(Do, "After")(gate)])
    stuck = Pipeline[PageContext]([start(), nested])
    stuck.run(pages(1))
    gate.wait_until_inside(1)
    free = Pipeline[PageContext]([start(), Pipeline[PageContext]([counted()])])
    assert ends(lambda: run_through(free))
    gate.open()
    stuck.wait_for_background()


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_that_raises_gives_its_place_back(kind: AnyDo) -> None:
    def fail(number: int) -> None:
        raise ValueError(number)

    counted = variant(kind, "Counted")
    pipeline = Pipeline[PageContext]([start(), Pipeline[PageContext]([counted(fail)])])
    results = pipeline.run(pages(3))
    assert ends(pipeline.wait_for_background)
    assert [type(result.error) for result in results] == [ValueError] * 3
    alone = Pipeline[PageContext]([variant(counted, "Counted", boundary=True)()])
    alone.run(pages(2))
    assert ends(alone.wait_for_background)


def test_who_waits_inside_does_not_overtake_who_came_before() -> None:
    limiter, came = Limiter(limit=1), list[str]()

    def pass_inside() -> None:
        limiter.enter()
        came.append("inside")
        limiter.leave()

    limiter.enter()
    limiter.submit(lambda: came.append("alone"))
    inside = threading.Thread(target=pass_inside)
    inside.start()
    limiter.leave()
    inside.join()
    assert came == ["alone", "inside"]


def _passing(kind: AnyDo, gate: Gate) -> Callable[[int], object]:
    """The gate as an action that does not block the event loop."""
    if issubclass(kind, DoAsync):
        return lambda number: asyncio.to_thread(gate, number)
    return gate


def test_waiting_for_a_place_inside_does_not_block_the_loop() -> None:
    counted = variant(DoAsync, "Counted")
    gate = Gate()
    holding = Pipeline[PageContext]([start(), counted(_passing(DoAsync, gate))])
    waiting = Pipeline[PageContext]([start(), Pipeline[PageContext]([counted()])])
    holding.run(pages(1))
    gate.wait_until_inside(1)
    waiting.run(pages(1))
    wait_until(lambda: waiting.background_stats()["active"] == 1)
    other = Pipeline[PageContext]([variant(DoAsync, "Other", boundary=True)()])
    assert ends(lambda: run_through(other))
    assert waiting.background_stats()["active"] == 1
    gate.open()
    for pipeline in (holding, waiting):
        pipeline.wait_for_background()


@pytest.mark.parametrize("kind", STEPS)
def test_the_foreground_is_not_limited(kind: AnyDo) -> None:
    both_inside = threading.Barrier(2)
    counted = variant(kind, "Counted")
    action = (lambda _: asyncio.to_thread(both_inside.wait, 60)) if kind is DoAsync else lambda _: both_inside.wait(60)
    nested = Pipeline[PageContext]([counted(action)])
    results = Pipeline[PageContext]([nested]).run(pages(2), workers=2)
    assert [result.error for result in results] == [None, None]
    [result] = Pipeline[PageContext]([Branch[PageContext](counted(action), counted(action))]).run(pages(1))
    assert result.error is None


def test_an_instance_with_a_limit_of_its_own_keeps_it_inside() -> None:
    counted = variant(Do, "Counted")
    door, both_inside = Door(), threading.Barrier(2)
    wide = counted(lambda _: both_inside.wait(60))
    wide.max_workers = 2
    narrow = counted(door.action(counted))
    branch = Branch[PageContext](wide, wide, narrow, narrow)
    with Pipeline[PageContext]([start(), branch]) as pipeline:
        results = pipeline.run(pages(2))
    assert [result.error for result in results] == [None, None]
    assert (len(door.passed), door.most_inside) == (4, 1)


def test_context_variables_and_names_in_errors_are_as_without_a_limit() -> None:
    class Forget(Do):
        def __call__(self, ctx: PageContext) -> PageContext:
            return None  # type: ignore[return-value]  # the mistake that is tested

    pipeline = Pipeline[PageContext]([start(), Pipeline[PageContext]([Forget()])])
    [result] = pipeline.run(pages(1))
    pipeline.wait_for_background()
    assert result.failed_at == "Pipeline"
    assert "step Forget returned None" in str(result.error)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("lane", [None, "book"])
def test_an_observer_inside_knows_that_it_is_in_the_background(kind: AnyDo, lane: str | None) -> None:
    class Journal:
        def __init__(self) -> None:
            self.places: list[tuple[str, bool]] = []

        def step_started(self, step_name: str, ctx: StepContext, background: bool) -> None:
            self.places.append((step_name, background))

        def step_ended(
            self, step_name: str, ctx: StepContext, background: bool, seconds: float, error: BaseException | None
        ) -> None:
            self.places.append((step_name, background))

    class InLane(Pipeline[PageContext]):
        pass

    journal = Journal()
    nested = InLane([variant(kind, "Inner")()], step_observer=journal)
    nested.lane = lane  # type: ignore[attr-defined]  # any step may have one
    pipeline = Pipeline[PageContext]([start(), Branch[PageContext](nested, Do()) if lane is None else nested])
    pipeline.run(pages(1))
    pipeline.wait_for_background()
    Pipeline[PageContext]([nested]).run(pages(1))
    assert journal.places == [("Inner", True), ("Inner", True), ("Inner", False), ("Inner", False)]


def test_a_system_without_threads_to_give_does_it_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = variant(Do, "Counted")
    door = Door()
    inside = Branch[PageContext](counted(door.action(counted)), counted(door.action(counted)))
    alone = counted(door.action(counted))
    pipeline = Pipeline[PageContext]([start(), alone, inside, Pipeline[PageContext]([inside]), alone])
    pipeline.close()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    results = pipeline.run(pages(4))
    pipeline.wait_for_background(timeout=60)
    assert [result.error for result in results] == [None] * 4
    assert (len(door.passed), door.most_inside) == (24, 1)
