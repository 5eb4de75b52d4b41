"""The recursive reflector explores the runs of Claude Code, with the binary as its model."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.roles import SkillManager
from ace_claude_code import ClaudeCode, ClaudeCodeLLMClient
from tests.claude_code import check_world
from tests.claude_code.conftest import ServerFor
from tests.support.reflection_script import REFLECTION, python, submit
from tests.support.scripted_anthropic_server import Reply, Request, Text

pytest.importorskip("pydantic_monty")


def test_the_run_of_an_agent_is_explored_with_code(claude: str, project: Path, serving: ServerFor) -> None:
    from ace.rr import RRStep

    look = python("print([step.preview(80) for step in trace.get_errors()])\nprint(ask_llm('Why did it fail?'))")

    def script(request: Request) -> Reply:
        if "Why did it fail?" in request.prompt and "[Iteration " not in request.prompt:
            return [Text("It needs a header.")]
        if "[Iteration 2/" in request.prompt:
            return [Text(submit({**REFLECTION, "extracted_learnings": [{"learning": check_world.RULE}]}))]
        return [Text(look)] if "[Iteration 1/" in request.prompt else check_world.play(request)

    check_world.lay_out(project)
    server = serving(script)
    client = ClaudeCodeLLMClient(claude=claude)
    runner = ClaudeCode.from_roles(
        reflector=RRStep(client),
        skill_manager=SkillManager(client),
        working_dir=project,
        claude=claude,
        allowed_tools=["Bash(python3:*)"],
        timeout=60,
        unproven="keep",
    )
    (result,) = runner.run([check_world.TASK])
    assert result.error is None
    (last,) = [request.prompt for request in server.requests if "[Iteration 2/" in request.prompt]
    assert "# Your answer\n\nI look at the record." in last
    output = last.partition("# Next message\n\n")[2]
    assert "this project checks with --strict only" in output
    assert "It needs a header." in output
    assert [skill.content for skill in runner.skillbook.skills()] == [check_world.RULE]
