"""The conformance kit on this integration, with the real binary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ace.pipeline import PipelineCancelled
from ace.testing import (
    ExecuteStepConformance,
    IntegrationConformance,
    LogReaderConformance,
    PluginConformance,
    RunnerConformance,
    ScriptedModel,
    TraceConverterConformance,
)
from ace_claude_code import ClaudeCode, ClaudeCodeExecuteStep, ClaudeCodeResult
from tests.claude_code.conftest import ServerFor
from tests.claude_code.samples import STREAMS, TRANSCRIPTS, assistant
from tests.support.scripted_anthropic_server import Refusal, Reply, Request, Text


def serve(serving: ServerFor, model: ScriptedModel) -> None:
    """Let the kit's model stand behind the server that the binary talks to."""

    def answer(request: Request) -> Reply:
        if not request.tools:  # the binary wants a title for the session
            return [Text("A title")]
        try:
            return [Text(model(request.text))]
        except (RuntimeError, PipelineCancelled, asyncio.CancelledError) as error:
            return Refusal(500, str(error))

    serving(answer)


class Shared:
    @pytest.fixture
    def plugin_name(self) -> str:
        return "claude_code"


class TestPlugin(Shared, PluginConformance):
    pass


class TestExecuteStep(Shared, ExecuteStepConformance):
    @pytest.fixture
    def make_step(
        self, claude: str, project: Path, serving: ServerFor
    ) -> Callable[[ScriptedModel], ClaudeCodeExecuteStep]:
        def make(model: ScriptedModel) -> ClaudeCodeExecuteStep:
            serve(serving, model)
            return ClaudeCodeExecuteStep(project, claude=claude)

        return make


class TestTraceConverter(Shared, TraceConverterConformance):
    @pytest.fixture
    def successful_result(self) -> ClaudeCodeResult:
        end = {"type": "result", "subtype": "success", "is_error": False, "result": "4"}
        events = ({"type": "system", "subtype": "init", "session_id": "s1"}, assistant("4", "a1"), end)
        return ClaudeCodeResult(task="2+2?", success=True, output="4", returncode=0, events=events)

    @pytest.fixture
    def failed_result(self) -> ClaudeCodeResult:
        return ClaudeCodeResult(task="2+2?", success=False, error="The run was stopped after 5 seconds.")


class TestLogReader(Shared, LogReaderConformance):
    @pytest.fixture
    def sample_logs(self) -> list[Path]:
        return [TRANSCRIPTS / "tests-fixed.jsonl", TRANSCRIPTS / "subagent-parent.jsonl", STREAMS / "success.jsonl"]


class TestIntegration(Shared, IntegrationConformance):
    @pytest.fixture
    def make_step(self, claude: str, project: Path, serving: ServerFor) -> Callable[..., ClaudeCodeExecuteStep]:
        def make(model: ScriptedModel, **options: Any) -> ClaudeCodeExecuteStep:
            serve(serving, model)
            return ClaudeCodeExecuteStep(project, claude=claude, **options)

        return make

    @pytest.fixture
    def successful_result(self) -> ClaudeCodeResult:
        said = "4, by [maths-00001]."
        end = {"type": "result", "subtype": "success", "is_error": False, "result": said}
        events = ({"type": "system", "subtype": "init", "session_id": "s1"}, assistant(said, "a1"), end)
        return ClaudeCodeResult(
            "2+2?", success=True, output=said, returncode=0, events=events, skill_ids=("maths-00001",)
        )


class TestRunner(Shared, RunnerConformance):
    @pytest.fixture
    def runner_class(self) -> type[ClaudeCode]:
        return ClaudeCode

    @pytest.fixture
    def make_runner(self, claude: str, project: Path, serving: ServerFor) -> Callable[..., ClaudeCode]:
        def make(model: ScriptedModel, **options: object) -> ClaudeCode:
            serve(serving, model)
            return ClaudeCode.from_roles(working_dir=project, claude=claude, **options)  # type: ignore[arg-type]  # the kit's

        return make
