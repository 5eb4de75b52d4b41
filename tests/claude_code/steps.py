"""Runs the execute step of the tests."""

from __future__ import annotations

from typing import Any

from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import Pipeline
from ace.skillbook import Skillbook
from ace_claude_code import ClaudeCodeExecuteStep, ClaudeCodeResult
from tests.support.scripted_anthropic_server import ToolUse


def book(*contents: str) -> Skillbook:
    skillbook = Skillbook()
    for content in contents:
        skillbook.add_skill("shell", content)
    return skillbook


def run(step: ClaudeCodeExecuteStep, task: Any, skillbook: Skillbook | None = None) -> ClaudeCodeResult:
    view = SkillbookView(book() if skillbook is None else skillbook)
    [result] = Pipeline[ACEStepContext]([step]).run([ACEStepContext(sample=task, skillbook=view)])
    if result.error is not None:
        raise result.error
    assert result.output is not None
    found = result.output.trace
    assert isinstance(found, ClaudeCodeResult)
    return found


def bash(command: str) -> ToolUse:
    return ToolUse("Bash", {"command": command, "description": "Run it"})
