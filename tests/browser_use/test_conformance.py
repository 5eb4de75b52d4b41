"""The conformance kit on this integration, with a real browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
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
from ace_browser_use import BrowserExecuteStep, BrowserResult, BrowserUse
from tests.browser_use.harbour import answer, browser_llm, done, profile
from tests.support.scripted_server import Answer, HttpError, ScriptedRequest, ScriptedServer

LLMFor = Callable[[ScriptedModel], Any]


@pytest.fixture
def llm_for() -> Iterator[LLMFor]:
    """Lets the kit's model stand behind the server that the browser's agent talks to."""
    started: list[ScriptedServer] = []

    def serve(model: ScriptedModel) -> Any:
        def script(request: ScriptedRequest) -> Answer | HttpError:
            try:
                said = model(request.text)
            except (RuntimeError, PipelineCancelled, asyncio.CancelledError) as error:
                return HttpError(500, str(error))
            return Answer(json.dumps(answer("I know it.", done(said, success=True))))

        server = ScriptedServer(script).__enter__()
        started.append(server)
        return browser_llm(server)

    yield serve
    for server in started:
        server.__exit__(None, None, None)


class Shared:
    @pytest.fixture
    def plugin_name(self) -> str:
        return "browser_use"

    @pytest.fixture
    def framework_modules(self) -> tuple[str, ...]:
        return ("browser_use",)


class TestPlugin(Shared, PluginConformance):
    pass


@pytest.mark.usefixtures("chromium")
class TestExecuteStep(Shared, ExecuteStepConformance):
    @pytest.fixture
    def make_step(self, llm_for: LLMFor) -> Callable[[ScriptedModel], BrowserExecuteStep]:
        return lambda model: BrowserExecuteStep(llm_for(model), profile())


class TestTraceConverter(Shared, TraceConverterConformance):
    @pytest.fixture
    def successful_result(self) -> BrowserResult:
        return BrowserResult("Book a berth.", success=True, output="Berth 4.")

    @pytest.fixture
    def failed_result(self) -> BrowserResult:
        return BrowserResult("Book a berth.", success=False, error="it ran out of steps")


class TestLogReader(Shared, LogReaderConformance):
    @pytest.fixture
    def sample_logs(self) -> list[Path]:
        here = Path(__file__).parent
        return [here / "logs" / "bu_old.json", *sorted((here / "histories").glob("*.json"))]


@pytest.mark.usefixtures("chromium")
class TestIntegration(Shared, IntegrationConformance):
    @pytest.fixture
    def make_step(self, llm_for: LLMFor) -> Callable[..., BrowserExecuteStep]:
        return lambda model, **options: BrowserExecuteStep(llm_for(model), profile(), **options)

    @pytest.fixture
    def successful_result(self) -> BrowserResult:
        return BrowserResult("Book a berth.", success=True, output="Berth 4.", cited_skill_ids=("cookies-00001",))


@pytest.mark.usefixtures("chromium")
class TestRunner(Shared, RunnerConformance):
    @pytest.fixture
    def runner_class(self) -> type[BrowserUse]:
        return BrowserUse

    @pytest.fixture
    def make_runner(self, llm_for: LLMFor) -> Callable[..., BrowserUse]:
        return lambda model, **options: BrowserUse.from_roles(llm_for(model), browser=profile(), **options)
