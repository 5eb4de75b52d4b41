import asyncio
import threading

import pytest

from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled, SampleResult, cancel_token_var

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
