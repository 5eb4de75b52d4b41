import asyncio
import threading
from collections.abc import Callable

import pytest

from ace.pipeline import Branch, CancellationToken, Pipeline, PipelineCancelled, SampleResult, cancel_token_var

from .sample_steps import AnyDo, Do, DoAsync, Gate, PageContext, pages, samples_of, variant


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("step", [Do, DoAsync])
def test_a_token_cancelled_before_the_run_runs_nothing(step: AnyDo, workers: int) -> None:
    token = CancellationToken()
    token.cancel()
    seen: list[int] = []
    done: list[SampleResult[PageContext]] = []
    pipeline = Pipeline[PageContext]([variant(step, "First")(seen.append), variant(Do, boundary=True)(seen.append)])
    results = pipeline.run(pages(5), workers=workers, cancel_token=token, on_sample_done=done.append)
    pipeline.wait_for_background()
    assert seen == []
    assert samples_of(results) == [0, 1, 2, 3, 4]
    assert all(isinstance(result.error, PipelineCancelled) for result in results)
    assert {result.failed_at for result in results} == {"First"}
    assert len(done) == 5


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_cancelling_stops_before_the_next_step_and_reports_samples_never_started(step: AnyDo) -> None:
    token = CancellationToken()
    second: list[int] = []

    def cancel(number: int) -> None:
        if number == 2:
            token.cancel()

    pipeline = Pipeline([variant(step, "First")(cancel), variant(step, "Second")(second.append)])
    results = pipeline.run(iter(pages(5)), cancel_token=token)
    assert second == [0, 1]
    assert [result.failed_at for result in results] == [None, None, "Second", "First", "First"]
    assert [isinstance(result.error, PipelineCancelled) for result in results] == [False, False, True, True, True]
    assert results[2].output is None


def _cancel_inside(kind: AnyDo, place: str) -> tuple[list[int], list[str | None]]:
    """Cancel the run in the first step of something nested. Returns who reached the last one, and where it failed."""
    token = CancellationToken()
    last: list[int] = []
    first, second = kind(lambda number: token.cancel()), kind(last.append)
    boundary = variant(Do, boundary=True)()
    pipelines: dict[str, Callable[[], Pipeline[PageContext]]] = {
        "nested": lambda: Pipeline([Pipeline([first, second])]),
        "nested twice": lambda: Pipeline([Pipeline([Do(), Pipeline([first, second])])]),
        "branch": lambda: Pipeline([Branch(Pipeline([first, second]), Do())]),
        "called": lambda: Pipeline(
            [Do(lambda number: Pipeline([Pipeline([first, second])])(PageContext(sample=number)))]
        ),
        "background": lambda: Pipeline([boundary, Pipeline([Pipeline([first, second])])]),
    }
    pipeline = pipelines[place]()
    results = pipeline.run(pages(1), cancel_token=token)
    pipeline.wait_for_background()
    assert [type(result.error) for result in results if result.error] in ([], [PipelineCancelled])
    return last, [result.failed_at for result in results]


@pytest.mark.parametrize("kind", [Do, DoAsync])
@pytest.mark.parametrize("place", ["nested", "nested twice"])
def test_cancelling_stops_a_nested_pipeline_before_its_next_step(kind: AnyDo, place: str) -> None:
    assert _cancel_inside(kind, place) == ([], ["Pipeline"])


@pytest.mark.parametrize("kind", [Do, DoAsync])
@pytest.mark.parametrize("place", ["branch", "called", "background"])
def test_what_is_no_step_of_the_foreground_runs_to_its_end(kind: AnyDo, place: str) -> None:
    assert _cancel_inside(kind, place) == ([0], [None])


def test_a_pipeline_without_foreground_names_its_first_step() -> None:
    token = CancellationToken()
    token.cancel()
    [result] = Pipeline([variant(Do, "Reflect", boundary=True)()]).run(pages(1), cancel_token=token)
    assert result.failed_at == "Reflect"


def test_background_work_is_not_interrupted_but_sees_the_token() -> None:
    gate = Gate()
    token = CancellationToken()
    seen: list[bool] = []

    def look(number: int) -> None:
        current = cancel_token_var.get()
        assert current is token
        seen.append(current.is_cancelled)

    pipeline = Pipeline([variant(Do, boundary=True)(gate), variant(Do, "Look")(look)])
    results = pipeline.run(pages(3), cancel_token=token)
    gate.wait_until_inside(1)
    token.cancel()
    gate.open()
    pipeline.wait_for_background()
    assert seen == [True, True, True]
    assert all(result.error is None for result in results)


@pytest.mark.parametrize("step", [Do, DoAsync])
def test_steps_see_the_token_of_their_run_which_is_gone_afterwards(step: AnyDo) -> None:
    seen: list[CancellationToken | None] = []
    pipeline = Pipeline([step(lambda _: seen.append(cancel_token_var.get()))])
    token = CancellationToken()
    pipeline.run(pages(1), cancel_token=token)
    asyncio.run(pipeline.run_async(pages(1), cancel_token=token))
    pipeline.run(pages(1))
    assert seen == [token, token, None]
    assert cancel_token_var.get() is None


def test_a_token_is_for_a_run_not_for_the_pipeline() -> None:
    token = CancellationToken()
    token.cancel()
    pipeline = Pipeline([Do()])
    assert pipeline.run(pages(1), cancel_token=token)[0].error is not None
    assert pipeline.run(pages(1))[0].error is None


def test_cancel_is_idempotent_and_can_come_from_any_thread() -> None:
    token = CancellationToken()
    gate = Gate()
    results: list[SampleResult[PageContext]] = []
    pipeline = Pipeline([Do(gate), Do()])
    running = threading.Thread(target=lambda: results.extend(pipeline.run(pages(4), 2, cancel_token=token)))
    running.start()
    gate.wait_until_inside(2)
    token.cancel()
    token.cancel()
    gate.open()
    running.join()
    assert all(isinstance(result.error, PipelineCancelled) for result in results)
