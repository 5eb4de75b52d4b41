"""The conformance kit on this integration. It runs no agent, and its runner takes stored sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.testing import IntegrationConformance, LogReaderConformance, PluginConformance, TraceConverterConformance
from ace_openclaw import StoredSession, read_session
from tests.openclaw.samples import CAPTURED, EXPORTED, V3, V4, V4_ERROR


def session(stop_reason: str, **more: object) -> StoredSession:
    asked = {"role": "user", "content": "2+2?"}
    answered = {"role": "assistant", "stopReason": stop_reason, "content": [{"type": "text", "text": "4"}], **more}
    return read_session([{"type": "message", "message": asked}, {"type": "message", "message": answered}])


class Shared:
    @pytest.fixture
    def plugin_name(self) -> str:
        return "openclaw"


class TestPlugin(Shared, PluginConformance):
    pass


class TestIntegration(Shared, IntegrationConformance):
    @pytest.fixture
    def successful_result(self) -> object:
        return session("stop")


class TestTraceConverter(Shared, TraceConverterConformance):
    @pytest.fixture
    def successful_result(self) -> object:
        return session("stop")

    @pytest.fixture
    def failed_result(self) -> object:
        return session("error", errorMessage="no route")


class TestLogReader(Shared, LogReaderConformance):
    @pytest.fixture
    def sample_logs(self) -> list[Path]:
        return [V3, V4, V4_ERROR, CAPTURED, EXPORTED, EXPORTED / "session-branch.json"]
