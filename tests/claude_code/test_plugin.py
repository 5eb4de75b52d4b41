"""The plugin is found by its names."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import ace
from ace import read_trace
from ace.plugins import get_execute_step, get_llm_client, get_runner, get_trace_converter, list_plugins
from ace_claude_code import ClaudeCode, ClaudeCodeExecuteStep, ClaudeCodeLLMClient, ClaudeCodeResult
from tests.claude_code.samples import STREAMS, TRANSCRIPTS, lines
from tests.support.subprocesses import run_python


def test_everything_is_reached_by_the_name_of_the_plugin() -> None:
    assert get_runner("claude_code") is ClaudeCode
    assert get_execute_step("claude_code") is ClaudeCodeExecuteStep
    assert get_llm_client("claude_code") is ClaudeCodeLLMClient
    assert callable(get_trace_converter("claude_code"))
    assert ace.ClaudeCode is ClaudeCode
    [info] = [info for info in list_plugins() if info.name == "claude_code"]
    assert info.distribution == "ace-claude-code"


def test_the_reader_of_traces_takes_results_and_records() -> None:
    stored = TRANSCRIPTS / "tests-fixed.jsonl"
    events = tuple(lines(STREAMS / "success.jsonl"))
    result = ClaudeCodeResult(task="Make mean([]) return 0", success=True, events=events)
    for trace in (lines(stored), result):
        read = read_trace(trace)
        assert read["question"] == "Make mean([]) return 0"
        assert read["skill_ids"] == ["testing-00001"]


def test_the_hook_module_is_light() -> None:
    code = "import sys, json, ace_claude_code.plugin; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(run_python(code).stdout))
    assert not loaded & {"pydantic", "litellm", "cyclopts", "ace.skillbook", "ace_claude_code.execute", "asyncio"}


def test_the_package_imports_nothing_before_it_is_used() -> None:
    code = "import sys, ace_claude_code; print(*(name for name in sys.modules if name.startswith('ace')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    # What exports names lazily is of the core, which imports nothing else.
    assert set(done.stdout.split()) == {
        "ace",
        "ace._internal",
        "ace._internal.lazy_exports",
        "ace.integrations",
        "ace_claude_code",
    }


def test_an_unknown_name_is_an_attribute_error() -> None:
    import ace_claude_code

    with pytest.raises(AttributeError, match="has no attribute 'Hologram'"):
        _ = ace_claude_code.Hologram
