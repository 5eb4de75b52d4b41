"""What outer steps provide is available inside nested pipelines and branches."""

import pytest

from ace.pipeline import Branch, Pipeline, PipelineError, PipelineOrderError, StepContext, StepProtocol

from .test_sample_ends import ways


class SetPre:
    """Provides a name that is no field: it puts it into the metadata."""

    requires = frozenset({"sample"})
    provides = frozenset({"pre"})

    def __call__(self, ctx: StepContext) -> StepContext:
        return ctx.replace(metadata={**ctx.metadata, "pre": f"seen {ctx.sample}"})


class ReadPre:
    """Requires that name."""

    requires = frozenset({"pre"})
    provides = frozenset({"post"})

    def __call__(self, ctx: StepContext) -> StepContext:
        return ctx.replace(metadata={**ctx.metadata, "post": ctx.metadata["pre"]})


class ReadPreAsync(ReadPre):
    """Requires it asynchronously."""

    async def __call__(self, ctx: StepContext) -> StepContext:  # type: ignore[override]  # awaited by the engine
        return ReadPre.__call__(self, ctx)


class ReadPreBehind(ReadPre):
    """Requires it behind the boundary."""

    async_boundary = True


Step = StepProtocol[StepContext]


def shapes(read: Step) -> dict[str, list[Step]]:
    return {
        "flat": [SetPre(), read],
        "nested": [SetPre(), Pipeline([read])],
        "nested deeply": [SetPre(), Pipeline([Pipeline([Pipeline([read])])])],
        "all nested": [Pipeline([SetPre()]), Pipeline([read])],
        "nested with its provider outside": [Pipeline([SetPre(), Pipeline([read])])],
        "branch of steps": [SetPre(), Branch(read)],
        "branch of pipelines": [SetPre(), Branch(Pipeline([read]), Pipeline([read]))],
        "branch in a nested pipeline": [SetPre(), Pipeline([Branch(Pipeline([read]))])],
        "branch in a branch": [SetPre(), Branch(Branch(Pipeline([Pipeline([read])])))],
        "behind the boundary": [SetPre(), ReadPreBehind(), Pipeline([read]), Branch(Pipeline([read]))],
    }


@ways
@pytest.mark.parametrize("shape", list(shapes(ReadPre())))
@pytest.mark.parametrize("read", [ReadPre, ReadPreAsync])
def test_a_name_that_an_outer_step_provides_is_available_inside(way: object, shape: str, read: type[Step]) -> None:
    pipeline = Pipeline[StepContext](shapes(read())[shape])
    assert "pre" not in pipeline.requires
    results = way(pipeline, [StepContext(1), StepContext(2)])  # type: ignore[operator]  # contexts of another class
    pipeline.wait_for_background()
    assert [result.error for result in results] == [None, None]
    assert [result.output.metadata["post"] for result in results] == ["seen 1", "seen 2"]


@pytest.mark.parametrize("shape", [name for name in shapes(ReadPre()) if name != "behind the boundary"])
def test_it_is_available_too_where_the_pipeline_is_called_with_one_context(shape: str) -> None:
    for read in (ReadPre(), ReadPreAsync()):
        assert Pipeline[StepContext](shapes(read)[shape])(StepContext(1)).metadata["post"] == "seen 1"


@pytest.mark.parametrize("shape", [name for name in shapes(ReadPre()) if name != "flat"])
def test_a_name_that_no_step_provides_is_still_missed_before_the_first_step(shape: str) -> None:
    steps = [step for step in shapes(ReadPre())[shape] if not isinstance(step, SetPre)]
    if "provider" in shape or shape == "all nested":
        steps = [Pipeline([ReadPre()])]
    [result] = Pipeline[StepContext](steps).run([StepContext(1)])
    assert isinstance(result.error, PipelineError)
    assert "requires the field 'pre', which StepContext lacks" in str(result.error)
    assert result.failed_at == type(steps[0]).__name__


def test_a_nested_pipeline_or_a_branch_before_the_provider_is_an_order_error() -> None:
    for early in (Pipeline([ReadPre()]), Branch(Pipeline([Pipeline([ReadPre()])]))):
        with pytest.raises(PipelineOrderError, match="'pre'"):
            Pipeline[StepContext]([early, SetPre()])


def test_a_branch_that_is_called_by_itself_checks_its_children() -> None:
    with pytest.raises(PipelineError, match="requires the field 'pre'"):
        Pipeline[StepContext]([Branch(Pipeline([ReadPre()]))])(StepContext(1))
