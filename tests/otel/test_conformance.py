"""The conformance kit on the plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ace.testing import CommandConformance, ObserverConformance, PluginConformance
from ace_otel import instrumentation
from tests.otel.collector import Collector


@pytest.fixture(scope="module", autouse=True)
def collector() -> Iterator[None]:
    """Receives what the observer of the environment sends, and finds a run in it."""
    with Collector() as started, pytest.MonkeyPatch.context() as environ:
        for name, value in started.environ.items():
            environ.setenv(name, value)
        yield
        sending = instrumentation._of_environment
        if sending is not None:  # the suite of the observer was selected
            sending.close()
            assert "ace.run" in {span.name for span in started.spans}


class Shared:
    @pytest.fixture
    def plugin_name(self) -> str:
        return "otel"

    @pytest.fixture
    def framework_modules(self) -> tuple[str, ...]:
        return ("opentelemetry.sdk",)


class TestPlugin(Shared, PluginConformance):
    pass


class TestCommand(Shared, CommandConformance):
    pass


class TestObserver(ObserverConformance):
    @pytest.fixture
    def plugin_name(self) -> str:
        return "otel"
