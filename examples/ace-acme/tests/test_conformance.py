"""The conformance kit of ace-core on this plugin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ace_acme.execute import AcmeExecuteStep
from ace_acme.result import AcmeResult, Deed
from acme_agent import AcmeAgent, RunLog

from ace.plugins import get_runner
from ace.testing import (
    ExecuteStepConformance,
    IntegrationConformance,
    LogReaderConformance,
    PluginConformance,
    RunnerConformance,
    ScriptedModel,
    TraceConverterConformance,
)


class Acme:
    @pytest.fixture
    def plugin_name(self) -> str:
        return "acme"

    @pytest.fixture
    def framework_modules(self) -> tuple[str, ...]:
        return ("acme_agent",)


class TestPlugin(Acme, PluginConformance):
    pass


class TestExecuteStep(Acme, ExecuteStepConformance):
    @pytest.fixture
    def make_step(self) -> Callable[[ScriptedModel], Any]:
        return lambda model: AcmeExecuteStep(AcmeAgent(model.ask))


class TestTraceConverter(Acme, TraceConverterConformance):
    @pytest.fixture
    def successful_result(self) -> AcmeResult:
        deeds = (Deed("called", "add", "2 2"), Deed("returned", "add", "4"))
        return AcmeResult("What is 2 + 2?", True, "4, by [maths-00001].", None, deeds, ("maths-00001",))

    @pytest.fixture
    def failed_result(self) -> AcmeResult:
        deeds = (Deed("called", "add", "2 2"), Deed("failed", "add", "KeyError: 'add'"))
        return AcmeResult("What is 2 + 2?", False, "", "AgentGaveUp: no answer after 5 turns", deeds)


class TestLogReader(Acme, LogReaderConformance):
    @pytest.fixture
    def sample_logs(self, tmp_path: Path) -> list[Path]:
        log = RunLog("What is 2 + 2?", answer="4")
        log.add("called", "add", "2 2")
        log.add("returned", "add", "4")
        log.write(tmp_path / "run.json")
        return [tmp_path / "run.json"]


class TestIntegration(Acme, IntegrationConformance):
    @pytest.fixture
    def make_step(self) -> Callable[..., Any]:
        return lambda model, **options: AcmeExecuteStep(AcmeAgent(model.ask), **options)

    @pytest.fixture
    def successful_result(self) -> AcmeResult:
        return AcmeResult("What is 2 + 2?", True, "4, by [maths-00001].", None, (), ("maths-00001",))


class TestRunner(Acme, RunnerConformance):
    @pytest.fixture
    def make_runner(self) -> Callable[..., Any]:
        return lambda model, **options: get_runner("acme").from_roles(AcmeAgent(model.ask), **options)
