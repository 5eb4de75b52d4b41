"""The hooks give the step, the converter and the runner, and know the records of browser-use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser_use import Tools
from browser_use.agent.views import AgentHistoryList, AgentOutput

import ace
from ace.context import ACEStepContext
from ace.logs import file_source, live_source, readers
from ace.logs.reading import reader_for
from ace.plugins import get_execute_step, get_runner, get_trace_converter, list_plugins
from ace_browser_use import BrowserExecuteStep, BrowserToTrace, BrowserUse, history_to_trace

FILES = sorted((Path(__file__).parent / "histories").glob("*.json"))


def live(path: Path) -> AgentHistoryList[Any]:
    model = AgentOutput.type_with_custom_actions(Tools().registry.create_action_model())
    return AgentHistoryList.load_from_file(path, model)


def test_the_plugin_gives_what_the_package_gives() -> None:
    assert get_execute_step("browser_use") is BrowserExecuteStep
    assert get_trace_converter("browser_use") is BrowserToTrace
    runner: Any = get_runner("browser_use")
    assert runner is BrowserUse is ace.BrowserUse
    (plugin,) = [plugin for plugin in list_plugins() if plugin.name == "browser_use"]
    assert plugin.distribution == "ace-browser-use"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_records_are_recognised_as_ours(path: Path) -> None:
    for source in (file_source(path), live_source(json.loads(path.read_text(encoding="utf-8")))):
        reader = reader_for(source.head, readers())
        assert reader is not None
        assert reader.name == "browser_use"
    assert BrowserToTrace()(ACEStepContext(trace=live(path))).trace == history_to_trace(path)


def test_records_of_others_are_not() -> None:
    records: list[object] = [{"history": []}, {"messages": [{"role": "user", "content": "hello"}]}]
    for record in records:
        reader = reader_for(live_source(record).head, readers())
        assert reader is None or reader.name != "browser_use"
