"""Wrong arguments and declarations are refused with an error that names them and the fix."""

import asyncio
import math
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from ace.pipeline import Branch, Pipeline, PipelineConfigError, PipelineError, SampleResult

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
        "on_sample_done is asynchronous and would have to be awaited; pass a plain function",
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
    with pytest.raises(error, match="hooks is a single Silent; pass a list of hooks: hooks=\\[hook\\]"):
        Pipeline(hooks=hooks)
    hooks = 3
    with pytest.raises(error, match="hooks is 3; it must be a list of hooks"):
        Pipeline(hooks=hooks)


def test_samples_must_be_wrapped_in_contexts() -> None:
    [result] = Pipeline([Do()]).run(["a page"])  # type: ignore[list-item]  # that is what is wrong
    assert str(result.error) == (
        "step Do requires the field 'sample', but str is not a context; wrap each sample in one: "
        "run([StepContext(sample), ...])"
    )


@pytest.mark.parametrize("timeout", ["3", True, math.nan])
def test_a_timeout_must_be_a_number(timeout: float) -> None:
    with pytest.raises(TypeError, match="it must be a number of seconds, or None to wait indefinitely"):
        Pipeline([Do()]).wait_for_background(timeout)


def test_any_number_of_seconds_can_be_waited_for() -> None:
    pipeline = Pipeline([variant(Do, boundary=True)(lambda number: time.sleep(0.01))])
    for timeout in (math.inf, 1e300):
        pipeline.run(pages(1))
        pipeline.wait_for_background(timeout)
        assert pipeline.background_stats()["active"] == 0


def test_a_callback_must_be_plain_however_it_is_written() -> None:
    class Callback:
        async def __call__(self, result: SampleResult[PageContext]) -> None:
            raise AssertionError("nobody awaits this")

    with pytest.raises(TypeError, match="would have to be awaited"):
        Pipeline([Do()]).run(pages(1), on_sample_done=Callback())  # type: ignore[arg-type]  # that is what is wrong


def test_a_pipeline_cannot_be_a_step_of_itself() -> None:
    pipeline = Pipeline([Do()])
    with pytest.raises(PipelineConfigError, match="cannot be a step of itself"):
        pipeline.then(pipeline)


def test_an_asynchronous_step_may_be_added_to_a_pipeline_that_is_a_step_already() -> None:
    inner = Pipeline([Do()])
    outer = Pipeline([inner])
    inner.then(DoAsync())
    assert [result.error for result in outer.run(pages(2))] == [None, None]


def test_the_children_of_a_branch_are_not_given_as_a_list() -> None:
    with pytest.raises(PipelineConfigError, match=r"Branch\(\*pipelines\)"):
        Branch([Pipeline([Do()])])  # type: ignore[arg-type]  # that is what is wrong


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
    assert f"step {type(step).__name__} returned a Later instead of a context" in str(result.error)


def test_the_background_limit_must_be_a_number() -> None:
    with pytest.raises(PipelineConfigError, match="background_limit must be a whole number of at least 1, got True"):
        Pipeline(background_limit=True)


@pytest.mark.parametrize("attribute", ["requires", "provides"])
def test_declared_fields_must_be_names(attribute: str) -> None:
    step = type("Number", (Do,), {attribute: {"sample", 7}})()
    with pytest.raises(PipelineConfigError, match=f"step Number declares `{attribute}` with 7 in it; .* field names"):
        Pipeline([step])


class Longer(Pipeline[PageContext]):
    """A pipeline of another library."""


@pytest.mark.parametrize(
    ("owner", "method", "misspelt", "message"),
    [
        (Pipeline, "__call__", "step", "Pipeline() got an unexpected keyword argument 'step'; did you mean 'steps'?"),
        (
            Longer([Do()]),
            "run",
            "worker",
            "Longer.run() got an unexpected keyword argument 'worker'; did you mean 'workers'?",
        ),
        (
            Pipeline([Do()]),
            "run_async",
            "progress",
            (
                "Pipeline.run_async() got an unexpected keyword argument 'progress'; it takes contexts, workers, "
                "on_sample_done, cancel_token, on_sample_end, max_in_flight"
            ),
        ),
        (
            Pipeline([Do()]),
            "stream",
            "on_sample_finished",
            "Pipeline.stream() got an unexpected keyword argument 'on_sample_finished'; did you mean 'on_sample_end'?",
        ),
        (
            Pipeline([Do()]),
            "astream",
            "max_inflight",
            "Pipeline.astream() got an unexpected keyword argument 'max_inflight'; did you mean 'max_in_flight'?",
        ),
        (Branch, "__call__", "marge", "Branch() got an unexpected keyword argument 'marge'; did you mean 'merge'?"),
        (
            Pipeline(),
            "branch",
            "marge",
            "Pipeline.branch() got an unexpected keyword argument 'marge'; did you mean 'merge'?",
        ),
    ],
)
def test_a_misspelt_keyword_gets_a_suggestion(owner: Any, method: str, misspelt: str, message: str) -> None:
    call = owner if method == "__call__" else getattr(owner, method)
    with pytest.raises(TypeError) as caught:
        call(**{misspelt: None})
    assert str(caught.value) == message


def test_a_type_error_of_the_input_is_left_alone() -> None:
    def contexts() -> Iterator[PageContext]:
        yield from pages(1)
        raise TypeError("page 2 has no number")

    with pytest.raises(TypeError, match=r"^page 2 has no number$"):
        Pipeline([Do()]).run(contexts())
