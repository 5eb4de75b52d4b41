"""Wrong arguments and declarations are refused with an error that names them and the mend."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from ace.pipeline import Pipeline, PipelineConfigError, PipelineError, SampleResult

from .sample_steps import AnyDo, Do, DoAsync, PageContext, pages, variant

Arguments = dict[str, Any]  # wrong ones, on purpose


async def _asynchronous_callback(result: SampleResult[PageContext]) -> None:
    raise AssertionError("it is never called")


WRONG: dict[str, tuple[Arguments, str]] = {
    "token": ({"cancel_token": True}, "cancel_token is True; it must be a CancellationToken"),
    "token class": ({"cancel_token": object}, "cancel_token is <class 'object'>; it must be a CancellationToken"),
    "callback": ({"on_sample_done": "print"}, "on_sample_done is 'print'; it must be a function of one result"),
    "asynchronous callback": (
        {"on_sample_done": _asynchronous_callback},
        "on_sample_done is asynchronous, and nobody would await it; give a plain function",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("way", ["run", "run_async", "stream", "astream"])
def test_wrong_arguments_of_a_run(way: str, wrong: str) -> None:
    arguments, text = WRONG[wrong]
    pipeline = Pipeline[PageContext]([Do()])

    async def run_async() -> None:
        await pipeline.run_async(pages(1), **arguments)

    ways: dict[str, Callable[[], object]] = {
        "run": lambda: pipeline.run(pages(1), **arguments),
        "run_async": lambda: asyncio.run(run_async()),
        "stream": lambda: pipeline.stream(pages(1), **arguments),
        "astream": lambda: pipeline.astream(pages(1), **arguments),
    }
    with pytest.raises(TypeError) as raised:
        ways[way]()
    assert str(raised.value).startswith(text)
    assert pipeline.then(Do()).run(pages(1))[0].error is None, "the refused call counts as no run"


@pytest.mark.parametrize("error", [TypeError, PipelineConfigError])
def test_hooks_must_be_a_list(error: type[Exception]) -> None:
    class Silent:
        def before_step(self, step_name: str, ctx: object) -> None: ...

        def after_step(self, step_name: str, ctx: object) -> None: ...

    hooks: Any = Silent()
    with pytest.raises(error, match="hooks is one Silent; give a list of them: hooks=\\[hook\\]"):
        Pipeline(hooks=hooks)
    hooks = 3
    with pytest.raises(error, match="hooks is 3; it must be a list of hooks"):
        Pipeline(hooks=hooks)


@pytest.mark.parametrize("error", [TypeError, PipelineConfigError])
def test_a_lane_must_be_a_name(error: type[Exception]) -> None:
    lane: Any = ["book"]
    step = variant(Do, "Write", lane=lane)()
    with pytest.raises(error, match="step Write declares lane = \\['book'\\]; it must be a name, such as 'skillbook'"):
        Pipeline([step])


class Later:
    """Something to await that is no coroutine."""

    def __await__(self) -> Generator[None, None, PageContext]:
        yield
        return PageContext(sample=0)


@pytest.mark.parametrize("boundary", [False, True])
@pytest.mark.parametrize("base", [Do, DoAsync])
def test_a_step_that_returns_something_to_await_fails(base: AnyDo, boundary: bool) -> None:
    later: Any = Later()

    class Plain(Do):
        async_boundary = boundary

        def __call__(self, ctx: PageContext) -> PageContext:
            return later  # type: ignore[no-any-return]  # the mistake that is tested

    class Async(DoAsync):
        async_boundary = boundary

        async def __call__(self, ctx: PageContext) -> PageContext:
            return later  # type: ignore[no-any-return]  # the mistake that is tested

    step = Plain() if base is Do else Async()
    pipeline = Pipeline[PageContext]([base(), step, base()])
    [result] = pipeline.run(pages(1))
    pipeline.wait_for_background()
    assert isinstance(result.error, PipelineError)
    assert result.failed_at == type(step).__name__
    assert f"step {type(step).__name__} returned a Later that nobody awaits" in str(result.error)


def test_the_background_limit_must_be_a_number() -> None:
    with pytest.raises(PipelineConfigError, match="background_limit is True; it must be a whole number, 1 or more"):
        Pipeline(background_limit=True)


@pytest.mark.parametrize("attribute", ["requires", "provides"])
def test_declared_fields_must_be_names(attribute: str) -> None:
    step = type("Number", (Do,), {attribute: {"sample", 7}})()
    with pytest.raises(PipelineConfigError, match=f"step Number declares `{attribute}` with 7 in it; .* field names"):
        Pipeline([step])
