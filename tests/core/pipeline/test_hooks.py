import pytest

from ace.pipeline import Branch, CancellationToken, Pipeline, PipelineHook, StepContext

from .sample_steps import (
    AnyDo,
    AnyRead,
    CountWords,
    Do,
    DoAsync,
    FindTitle,
    PageContext,
    Read,
    ReadAsync,
    pages,
    variant,
)


class Recorder:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, StepContext]] = []

    def before_step(self, step_name: str, ctx: StepContext) -> None:
        self.events.append(("before", step_name, ctx))

    def after_step(self, step_name: str, ctx: StepContext) -> None:
        self.events.append(("after", step_name, ctx))

    @property
    def names(self) -> list[tuple[str, str]]:
        return [(kind, name) for kind, name, _ in self.events]


@pytest.mark.parametrize("read", [Read, ReadAsync])
def test_hooks_see_each_foreground_step_with_its_context(read: AnyRead) -> None:
    recorder = Recorder()
    assert isinstance(recorder, PipelineHook)
    pipeline = Pipeline[PageContext](
        [read(), FindTitle(), variant(Do, "Background", boundary=True)()], hooks=[recorder]
    )
    pipeline.run(pages(1))
    pipeline.wait_for_background()
    name = read.__name__
    assert recorder.names == [("before", name), ("after", name), ("before", "FindTitle"), ("after", "FindTitle")]
    assert [getattr(ctx, "text", None) for _, _, ctx in recorder.events] == [None, "page 0", "page 0", "page 0"]


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_after_step_is_not_called_for_a_step_that_raised(step: AnyDo) -> None:
    def fail(number: int) -> None:
        raise ValueError(number)

    recorder = Recorder()
    Pipeline([step(), step(fail)], hooks=[recorder]).run(pages(1))
    name = step.__name__
    assert recorder.names == [("before", name), ("after", name), ("before", name)]


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_after_step_is_called_for_a_step_that_finished_before_a_cancellation(step: AnyDo) -> None:
    token = CancellationToken()
    recorder = Recorder()
    pipeline = Pipeline([step(lambda _: token.cancel()), step()], hooks=[recorder])
    [result] = pipeline.run(pages(1), cancel_token=token)
    assert recorder.names == [("before", step.__name__), ("after", step.__name__)]
    assert result.failed_at == step.__name__


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_a_hook_that_raises_is_logged_with_its_name_and_ignored(step: AnyDo, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        def before_step(self, step_name: str, ctx: StepContext) -> None:
            raise RuntimeError("no display")

        def after_step(self, step_name: str, ctx: StepContext) -> None:
            raise RuntimeError("no display")

    recorder = Recorder()
    [result] = Pipeline([step()], hooks=[Broken(), recorder]).run(pages(1))
    assert result.error is None
    assert len(recorder.events) == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"hook Broken raised in before_step for step {step.__name__}; the run continues",
        f"hook Broken raised in after_step for step {step.__name__}; the run continues",
    ]


def test_a_branch_and_a_nested_pipeline_count_as_one_step_and_nested_hooks_fire_by_themselves() -> None:
    outer, inner = Recorder(), Recorder()
    nested = Pipeline[PageContext]([Read(), Branch(FindTitle(), CountWords())], hooks=[inner])
    Pipeline([nested], hooks=[outer]).run(pages(1))
    assert outer.names == [("before", "Pipeline"), ("after", "Pipeline")]
    assert inner.names == [("before", "Read"), ("after", "Read"), ("before", "Branch"), ("after", "Branch")]
