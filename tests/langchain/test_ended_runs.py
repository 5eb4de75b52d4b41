"""A run that is out of time is recorded, one that is cancelled is raised; either way the call is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled
from ace_langchain import LangChainExecuteStep
from tests.langchain.models import in_turn
from tests.langchain.steps import book, run

TEMPLATE = ChatPromptTemplate([("user", "{question}")])


def test_a_run_that_takes_too_long_keeps_what_happened_before() -> None:
    async def slow(text: str) -> str:
        await asyncio.sleep(60)
        return text

    waiting: Any = RunnableLambda(slow)
    result = run(TEMPLATE | in_turn("first") | StrOutputParser() | waiting, "Go.", timeout=3)
    assert (result.result_type, result.error) == ("error", "OutOfTimeError: no result after 3 s")
    assert [(step["name"], step["content"]) for step in result.steps] == [
        ("assistant", "first"),
        ("slow", "it was still at work when the run was ended"),
    ]
    assert result.failed_at == "slow"


def cancelled_run(while_running: Callable[[CancellationToken], None]) -> tuple[Any, list[str]]:
    """Cancel a run from inside of its agent; return its results, and what the agent could still do."""
    token = CancellationToken()
    told: list[str] = []

    async def work(text: str) -> str:
        while_running(token)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.append("cleaned up")
            raise
        return text

    waiting: Any = RunnableLambda(work)
    pipeline = Pipeline[ACEStepContext]([LangChainExecuteStep(waiting)])
    ctx = ACEStepContext(sample="Go.", skillbook=SkillbookView(book()))
    return pipeline.run([ctx], cancel_token=token), told


def test_a_cancelled_run_is_raised_and_the_call_is_ended() -> None:
    (result,), told = cancelled_run(lambda token: token.cancel())
    assert isinstance(result.error, PipelineCancelled)
    assert (result.output, told) == (None, ["cleaned up"])


def test_a_cancelled_task_is_raised_and_the_call_is_ended() -> None:
    started, told = asyncio.Event(), list[str]()

    async def work(text: str) -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            told.append("cleaned up")
        return text

    async def scenario() -> None:
        waiting: Any = RunnableLambda(work)
        task = asyncio.create_task(LangChainExecuteStep(waiting).execute("Go.", SkillbookView(book())))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert told == ["cleaned up"]


def test_a_call_that_loses_the_cancellation_is_ended_all_the_same() -> None:
    token = CancellationToken()
    lost, ended = list[bool](), list[bool]()

    async def work(text: str) -> str:
        token.cancel()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost.append(True)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)
        return text

    losing: Any = RunnableLambda(work)
    ctx = ACEStepContext(sample="Go.", skillbook=SkillbookView(book()))
    (result,) = Pipeline[ACEStepContext]([LangChainExecuteStep(losing)]).run([ctx], cancel_token=token)
    assert isinstance(result.error, PipelineCancelled)
    assert (lost, ended) == ([True], [True])
