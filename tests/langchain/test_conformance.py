"""The conformance kit on this integration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage

from ace.testing import (
    ExecuteStepConformance,
    IntegrationConformance,
    LogReaderConformance,
    PluginConformance,
    RunnerConformance,
    ScriptedModel,
    TraceConverterConformance,
)
from ace_langchain import LangChain, LangChainExecuteStep, LangChainResult
from tests.langchain.models import ComputedModel, text_of


def agent_with(model: ScriptedModel) -> Any:
    def answer(messages: list[BaseMessage]) -> AIMessage:
        return AIMessage(model(text_of(messages)))

    return create_agent(ComputedModel(answer=answer), [])


class Shared:
    @pytest.fixture
    def plugin_name(self) -> str:
        return "langchain"

    @pytest.fixture
    def framework_modules(self) -> tuple[str, ...]:
        return ("langchain", "langchain_core", "langchain_classic", "langgraph")


class TestPlugin(Shared, PluginConformance):
    pass


class TestExecuteStep(Shared, ExecuteStepConformance):
    @pytest.fixture
    def make_step(self) -> Callable[[ScriptedModel], Any]:
        return lambda model: LangChainExecuteStep(agent_with(model))


class TestTraceConverter(Shared, TraceConverterConformance):
    @pytest.fixture
    def successful_result(self) -> LangChainResult:
        return LangChainResult("2+2?", "4", "simple", success=True)

    @pytest.fixture
    def failed_result(self) -> LangChainResult:
        return LangChainResult("2+2?", "", "error", success=False, error="OSError: no route", failed_at="model")


class TestLogReader(Shared, LogReaderConformance):
    @pytest.fixture
    def sample_logs(self, tmp_path: Path) -> list[Path]:
        called = {"name": "add", "args": {"a": 2, "b": 2}, "id": "c1"}
        talk: list[object] = [
            {"type": "human", "data": {"content": "2+2?"}},
            {"type": "ai", "data": {"content": "", "tool_calls": [called]}},
            {"type": "tool", "data": {"content": "4", "tool_call_id": "c1", "name": "add"}},
            {"type": "ai", "data": {"content": "4"}},
        ]
        result = LangChainResult("2+2?", "4", "simple", success=True).to_dict()
        run = {"id": "1", "trace_id": "1", "run_type": "tool", "inputs": {"a": 2}, "outputs": {"output": "4"}}
        logs: dict[str, list[object]] = {"list": [talk], "lines": talk, "result": [result], "langsmith": [run]}
        for name, values in logs.items():
            (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(value)}\n" for value in values))
        return [tmp_path / f"{name}.jsonl" for name in logs]


class TestIntegration(Shared, IntegrationConformance):
    @pytest.fixture
    def make_step(self) -> Callable[..., Any]:
        return lambda model, **options: LangChainExecuteStep(agent_with(model), **options)

    @pytest.fixture
    def successful_result(self) -> LangChainResult:
        return LangChainResult("2+2?", "4", "simple", success=True, skill_ids=("maths-00001",))


class TestRunner(Shared, RunnerConformance):
    @pytest.fixture
    def runner_class(self) -> type[LangChain]:
        return LangChain

    @pytest.fixture
    def make_runner(self) -> Callable[..., LangChain]:
        return lambda model, **options: LangChain.from_roles(agent_with(model), **options)
