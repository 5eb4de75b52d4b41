"""`ExecuteStepConformance`: the checks for the step that runs a framework."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.logs.plain import to_plain
from ace.pipeline import CancellationToken, PipelineCancelled, StepProtocol, cancel_token_var
from ace.plugins import ExecuteStepSpec
from ace.skillbook import Skillbook
from ace.testing.scripted_model import (
    FailingModel,
    MeetingModel,
    ScriptedModel,
    TaskCancellingModel,
    TokenCancellingModel,
    code_word,
    code_words,
)
from ace.testing.suite import Conformance, demand, must_be_given, resolved, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["ExecuteStepConformance", "MakeStep", "MakeTask"]

MakeStep = Callable[[ScriptedModel], StepProtocol[ACEStepContext]]
MakeTask = Callable[[str], object]
SKILL = "Before you answer, think of heliotrope."
AT_ONCE = 8


class ExecuteStepConformance(Conformance, is_suite=True):
    """Checks the step that runs a framework. Fixtures: `plugin_name`, `make_step`, `make_task`."""

    @pytest.fixture
    def make_step(self) -> MakeStep:
        """A function that takes a `ScriptedModel` and returns a new step, whose framework calls this model."""
        made: MakeStep = must_be_given(self, "make_step")
        return made

    @pytest.fixture
    def make_task(self) -> MakeTask:
        """A function that takes a code word and returns a task that contains it, such as a text."""
        return task_with

    def test_protocol(self, make_step: MakeStep) -> None:
        """It is a step that declares `sample` and `skillbook` in `requires`, and `trace` in `provides`."""
        step: object = make_step(ScriptedModel())
        if not isinstance(step, StepProtocol):
            pytest.fail(
                f"a {type(step).__name__} is not a step: it lacks requires, provides or __call__", pytrace=False
            )
        demand(
            {"sample", "skillbook"} <= set(step.requires),
            f"requires must contain 'sample' and 'skillbook', got {sorted(step.requires)}",
        )
        demand("trace" in step.provides, f"provides must contain 'trace', got {sorted(step.provides)}")

    def test_sync_or_async_as_declared(self, plugin_name: str, make_step: MakeStep) -> None:
        """The step is asynchronous if and only if its spec has `is_async=True`."""
        declared = spec_of(plugin_name, ExecuteStepSpec).is_async
        found = _is_asynchronous(make_step(ScriptedModel()))
        demand(declared == found, f"the spec says is_async={declared}, and the step has is_async={found}")

    def test_result_as_declared(self, plugin_name: str, make_step: MakeStep, make_task: MakeTask) -> None:
        """`ctx.trace` is an instance of the class in `produces` of the spec."""
        spec = spec_of(plugin_name, ExecuteStepSpec)
        if spec.produces is None:
            pytest.fail("the spec names no produces='package.module:Class'", pytrace=False)
        kind: Any = resolved(plugin_name, spec.produces)
        result = call_step(make_step(ScriptedModel()), context(make_task(code_word(1)))).trace
        demand(type(result) is kind, f"the spec says produces={spec.produces!r}, and the result is a {type(result)}")

    def test_skills_are_injected(self, make_step: MakeStep, make_task: MakeTask) -> None:
        """The prompt of the model contains the skills."""
        model = ScriptedModel()
        call_step(make_step(model), context(make_task(code_word(1))))
        demand(model.prompts, "the step never asked its model; make_step must pass on the ScriptedModel")
        demand(any(SKILL in prompt for prompt in model.prompts), "the model was not shown the skills")

    def test_context_is_not_changed(self, make_step: MakeStep, make_task: MakeTask) -> None:
        """It returns a new context, in which only declared fields and metadata differ, and keeps the skillbook."""
        book = book_with_skill()
        ctx = context(make_task(code_word(1)), book)
        before, skills = _fields(ctx), book.to_dict()
        step = make_step(ScriptedModel())
        after = call_step(step, ctx)
        changed = [name for name, value in _fields(ctx).items() if value is not before[name]]
        demand(not changed, f"it changed its own context: {', '.join(changed)}; return ctx.replace(...)")
        kept = dict(ctx.metadata).items() <= dict(after.metadata).items()
        declared = {"trace", "metadata" if kept else "", *step.provides}
        changed = [name for name, value in _fields(after).items() if value is not before[name]]
        undeclared = [name for name in changed if name not in declared]
        demand(not undeclared, f"it changed fields that are not in provides: {', '.join(undeclared)}")
        demand(book.to_dict() == skills, "it changed the skillbook; that is for the steps of the learning tail")

    def test_failure_is_recorded(self, make_step: MakeStep, make_task: MakeTask) -> None:
        """If the framework fails, the step returns a result with `success=False` and the error."""
        try:
            result = call_step(make_step(FailingModel()), context(make_task(code_word(1)))).trace
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            pytest.fail(f"it raised what the framework raised ({raised}); record it in the result", pytrace=False)
        demand(result is not None, "a run that failed gave no result")
        success, said = getattr(result, "success", None), getattr(result, "error", None)
        demand(success is False, f"the result of a run that failed has success={success!r}, not False")
        demand(isinstance(said, str) and said, f"the result of a run that failed has error={said!r}, no text")

    def test_eight_at_once(self, make_step: MakeStep, make_task: MakeTask) -> None:
        """The results of eight concurrent tasks in one step are not mixed up."""
        words = [code_word(number) for number in range(1, AT_ONCE + 1)]
        step = make_step(MeetingModel(AT_ONCE))
        after = _call_all_at_once(step, [context(make_task(word)) for word in words])
        for word, ctx in zip(words, after, strict=True):
            found = code_words(repr(to_plain(ctx.trace)))
            demand(found == [word], f"the result of the task with {word} holds {found}: the tasks got mixed up")

    def test_cancelled_run(self, make_step: MakeStep, make_task: MakeTask) -> None:
        """If the run is cancelled, the step raises `PipelineCancelled` instead of returning a result."""
        token, over = CancellationToken(), threading.Event()
        step = make_step(TokenCancellingModel(token, over))
        with _cancelled_by(token):
            try:
                call_step(step, context(make_task(code_word(1))))
            except (PipelineCancelled, asyncio.CancelledError):
                return
            finally:
                over.set()
        pytest.fail("the run was cancelled, and the step returned a result; let PipelineCancelled pass", pytrace=False)

    def test_cancelled_task(self, make_step: MakeStep, make_task: MakeTask) -> None:
        """If the task of an asynchronous step is cancelled, it raises `CancelledError` and returns nothing."""
        over = threading.Event()
        model = TaskCancellingModel(over)
        step = make_step(model)
        if not _is_asynchronous(step):
            pytest.skip("the step is not asynchronous")
        try:
            asyncio.run(_watched(step, context(make_task(code_word(1))), model, over))
        except asyncio.CancelledError:
            return
        pytest.fail("its task was cancelled, and the step returned a result; let CancelledError pass", pytrace=False)


def task_with(word: str) -> str:
    """Return a task as a text.

    Example:
        >>> task_with("kit0001code")
        'Repeat the code word kit0001code.'
    """
    return f"Repeat the code word {word}."


def book_with_skill() -> Skillbook:
    """Return a skillbook with one skill."""
    book = Skillbook()
    book.add_skill("kit", SKILL)
    return book


def context(task: object, book: Skillbook | None = None) -> ACEStepContext:
    """Return the context of a task, like that of a runner."""
    view = SkillbookView(book_with_skill() if book is None else book)
    return ACEStepContext(
        sample=task,
        skillbook=view,
        step_index=1,
        total_steps=1,
        global_sample_index=1,
        metadata=MappingProxyType({"kit": "keep this"}),
    )


def _fields(ctx: ACEStepContext) -> dict[str, object]:
    return {field.name: getattr(ctx, field.name) for field in dataclasses.fields(ctx)}


async def _watched(
    step: StepProtocol[Any], ctx: ACEStepContext, model: TaskCancellingModel, over: threading.Event
) -> None:
    task: asyncio.Task[object] = asyncio.ensure_future(step(ctx))
    model.watch(task)
    try:
        await task
    finally:
        over.set()


def _is_asynchronous(step: StepProtocol[Any]) -> bool:
    """Return whether a step is called asynchronously."""
    return inspect.iscoroutinefunction(type(step).__call__)


def call_step(step: StepProtocol[Any], ctx: ACEStepContext) -> ACEStepContext:
    """Call a synchronous or asynchronous step once."""
    returned: Any = step(ctx)
    result: ACEStepContext = asyncio.run(_awaited(returned)) if inspect.isawaitable(returned) else returned
    return result


def _call_all_at_once(step: StepProtocol[Any], contexts: Sequence[ACEStepContext]) -> list[ACEStepContext]:
    """Call one step for all contexts at the same time."""
    if _is_asynchronous(step):
        return asyncio.run(_all_awaited(step, contexts))
    with ThreadPoolExecutor(len(contexts)) as pool:
        return list(pool.map(lambda ctx: call_step(step, ctx), contexts))


@contextmanager
def _cancelled_by(token: CancellationToken) -> Iterator[None]:
    """Make a token the cancellation token of the current run during a `with` block."""
    before = cancel_token_var.set(token)
    try:
        yield
    finally:
        cancel_token_var.reset(before)


async def _awaited(returned: Awaitable[Any]) -> Any:
    return await returned


async def _all_awaited(step: StepProtocol[Any], contexts: Sequence[ACEStepContext]) -> list[ACEStepContext]:
    returned: list[Any] = [step(ctx) for ctx in contexts]
    return list(await asyncio.gather(*returned))
