"""The hooks give the step, the converter and the runner, and know the records of browser-use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser_use import Tools
from browser_use.agent.views import AgentHistoryList, AgentOutput

import ace
from ace.plugins import get_execute_step, get_runner, get_trace_converter, list_plugins
from ace.protocols import find_trace_converter
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
    for record in (path, json.loads(path.read_text(encoding="utf-8")), live(path)):
        converter = find_trace_converter(record)
        assert converter is not None
        assert converter.name == "browser_use"
        assert converter.convert(record) == history_to_trace(path)


def test_records_of_others_are_not() -> None:
    records: list[object] = [{"history": []}, {"messages": [{"role": "user", "content": "hello"}]}, b'{"history": []}']
    for record in records:
        converter = find_trace_converter(record)
        assert converter is None or converter.name != "browser_use"
