"""A step observer sees each step begin and end, on both sides of the boundary."""

import threading

import pytest

from ace.pipeline import Pipeline, PipelineConfigError, StepContext, StepObserver

from .sample_steps import AnyDo, AnyRead, Do, DoAsync, FindTitle, Gate, PageContext, Read, ReadAsync, pages, variant


class Journal:
    """Writes down what it is told; `ended` holds (step, background, error) and the context."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, bool]] = []
        self.contexts: list[StepContext] = []
        self.seconds: list[float] = []
        self.errors: list[BaseException | None] = []
        self._lock = threading.Lock()

    def step_started(self, step_name: str, ctx: StepContext, background: bool) -> None:
        with self._lock:
            self.lines.append(("started", step_name, background))
            self.contexts.append(ctx)

    def step_ended(
        self, step_name: str, ctx: StepContext, background: bool, seconds: float, error: BaseException | None
    ) -> None:
        with self._lock:
            self.lines.append(("ended", step_name, background))
            self.contexts.append(ctx)
            self.seconds.append(seconds)
            self.errors.append(error)


@pytest.mark.parametrize("read", [Read, ReadAsync])
@pytest.mark.parametrize("write", [Do, DoAsync])
@pytest.mark.parametrize("lane", [None, "book"])
def test_it_sees_foreground_and_background_steps_with_their_contexts(
    read: AnyRead, write: AnyDo, lane: str | None
) -> None:
    journal = Journal()
    behind = variant(write, "Behind", boundary=True, lane=lane)
    pipeline = Pipeline[PageContext]([read(), FindTitle(), behind()], step_observer=journal)
    pipeline.run(pages(1))
    pipeline.wait_for_background()
    assert isinstance(journal, StepObserver)
    assert journal.lines == [
        ("started", read.__name__, False),
        ("ended", read.__name__, False),
        ("started", "FindTitle", False),
        ("ended", "FindTitle", False),
        ("started", "Behind", True),
        ("ended", "Behind", True),
    ]
    titles = [getattr(ctx, "title", None) for ctx in journal.contexts]
    assert titles == [None, None, None, "Page 0", "Page 0", "Page 0"]
    assert journal.errors == [None, None, None]
    assert all(seconds >= 0 for seconds in journal.seconds)


@pytest.mark.parametrize("step", [Do, DoAsync])
@pytest.mark.parametrize("boundary", [False, True])
def test_it_sees_the_error_of_a_step_and_the_context_that_the_step_got(step: AnyDo, boundary: bool) -> None:
    error = ValueError("no such page")

    def fail(number: int) -> None:
        raise error

    journal = Journal()
    pipeline = Pipeline([variant(step, "Fail", boundary=boundary)(fail), step()], step_observer=journal)
    [result] = pipeline.run(pages(1))
    pipeline.wait_for_background()
    assert result.error is error
    assert journal.lines == [("started", "Fail", boundary), ("ended", "Fail", boundary)]
    assert journal.errors == [error]
    assert journal.contexts[0] is journal.contexts[1]


def test_a_step_that_returns_nothing_has_failed_for_it_too() -> None:
    class Forget(Do):
        def __call__(self, ctx: PageContext) -> PageContext:
            return None  # type: ignore[return-value]  # the mistake that is tested

    journal = Journal()
    [result] = Pipeline([Forget()], step_observer=journal).run(pages(1))
    assert journal.errors == [result.error]
    assert "returned None" in str(result.error)


def test_seconds_are_those_of_the_step_without_the_wait_for_a_place() -> None:
    gate, journal = Gate(), Journal()
    pipeline = Pipeline([variant(Do, "Behind", boundary=True)(gate)], step_observer=journal)
    pipeline.run(pages(2))
    gate.wait_until_inside(1)
    assert journal.lines == [("started", "Behind", True)]
    gate.open()
    pipeline.wait_for_background()
    assert [kind for kind, _, _ in journal.lines] == ["started", "ended"] * 2


@pytest.mark.parametrize("step", [Do, DoAsync])
@pytest.mark.parametrize("boundary", [False, True])
def test_an_observer_that_raises_is_logged_and_ignored(
    step: AnyDo, boundary: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Journal):
        def step_started(self, step_name: str, ctx: StepContext, background: bool) -> None:
            raise RuntimeError("no display")

        def step_ended(
            self, step_name: str, ctx: StepContext, background: bool, seconds: float, error: BaseException | None
        ) -> None:
            raise RuntimeError("no display")

    pipeline = Pipeline([variant(step, "Behind", boundary=boundary)()], step_observer=Broken())
    [result] = pipeline.run(pages(1))
    pipeline.wait_for_background()
    assert result.error is None and result.output is not None
    assert [record.getMessage() for record in caplog.records] == [
        "step observer Broken raised in step_started for step Behind; the run continues",
        "step observer Broken raised in step_ended for step Behind; the run continues",
    ]


def test_a_branch_and_a_nested_pipeline_are_one_step_and_a_nested_observer_sees_what_is_inside() -> None:
    outer, inner = Journal(), Journal()
    nested = Pipeline[PageContext]([Read()], step_observer=inner)
    Pipeline[PageContext]([nested], step_observer=outer).branch(Do(), DoAsync()).run(pages(1))
    assert [name for _, name, _ in outer.lines] == ["Pipeline", "Pipeline", "Branch", "Branch"]
    assert inner.lines == [("started", "Read", False), ("ended", "Read", False)]


def test_steps_that_are_added_later_are_observed_too() -> None:
    journal = Journal()
    Pipeline[PageContext](step_observer=journal).then(Read()).then(FindTitle()).run(pages(2), workers=2)
    assert sorted(name for _, name, _ in journal.lines) == ["FindTitle"] * 4 + ["Read"] * 4


def test_what_is_no_observer_is_refused() -> None:
    with pytest.raises(PipelineConfigError, match="step_observer list lacks step_started or step_ended"):
        Pipeline(step_observer=[])  # type: ignore[arg-type]  # the mistake that is tested
