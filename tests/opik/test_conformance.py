"""The conformance kit on the plugin, which sends to a receiver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from ace.testing import ExtraStepsConformance, PluginConformance
from ace_opik import flush
from tests.opik.receiver import Receiver
from tests.opik.with_opik import close_connections, without_callbacks


class Shared:
    @pytest.fixture
    def plugin_name(self) -> str:
        return "opik"

    @pytest.fixture
    def framework_modules(self) -> tuple[str, ...]:
        return ("opik", "litellm")


class TestPlugin(Shared, PluginConformance):
    pass


class TestExtraSteps(Shared, ExtraStepsConformance):
    @pytest.fixture(autouse=True)
    def receiver(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
        with Receiver() as started, without_callbacks():
            for name, value in started.environ.items():
                monkeypatch.setenv(name, value)
            yield started
            close_connections()

    @pytest.fixture
    def options(self) -> Mapping[str, object]:
        return {"project": "parcels", "tags": ["nightly"]}

    def test_the_run_is_sent(self, receiver: Receiver, options: Mapping[str, object]) -> None:
        self.test_whole_run("opik", options)
        assert flush(timeout=30.0)
        assert [(trace["project_name"], *trace["tags"]) for trace in receiver.traces] == [("parcels", "nightly")] * 4
