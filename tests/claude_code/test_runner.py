"""Claude Code learns from a failed check, and passes it the next time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.pipeline import CancellationToken, PipelineCancelled, SampleResult
from ace.roles import Reflector, SkillManager
from ace.skillbook import Skillbook
from ace_claude_code import ClaudeCode, ClaudeCodeLLMClient, SkillFileStep
from tests.claude_code import check_world
from tests.claude_code.conftest import ServerFor


def runner_in(project: Path, claude: str, **options: Any) -> ClaudeCode:
    given: dict[str, Any] = {"allowed_tools": ["Bash(python3:*)"], "timeout": 600, "unproven": "keep", **options}
    return ClaudeCode.from_model(
        working_dir=project, claude=claude, ace_llm=ClaudeCodeLLMClient(claude=claude), **given
    )


def trace_of(result: SampleResult[ACEStepContext]) -> dict[str, Any]:
    assert result.error is None and result.output is not None
    trace = result.output.trace
    assert isinstance(trace, dict)
    return trace


def test_the_rule_of_a_failed_run_is_in_the_request_of_the_next_one_and_of_other_sessions(
    claude: str, project: Path, home: Path, serving: ServerFor
) -> None:
    check_world.lay_out(project)
    server = serving(check_world.play)
    path = home / "skills.json"
    runner = runner_in(project, claude, skillbook_path=path)
    results = runner.run([check_world.TASK, check_world.TASK])
    assert [trace_of(result)["answer"] for result in results] == [
        "The check failed, and I do not know why.",
        "The check passed, as [checks-00001] says.",
    ]
    [skill] = runner.skillbook.skills()
    assert (skill.id, skill.content, skill.helpful) == ("checks-00001", check_world.RULE, 1)
    assert skill.sources[0].integration == "claude_code"
    assert [saved.content for saved in Skillbook.load_from_file(path).skills()] == [check_world.RULE]
    agents = [request for request in server.requests if check_world.is_agent(request)]
    assert [check_world.has_rule(request) for request in agents] == [False, False, True, True]
    # They are left for the other sessions, and not loaded twice.
    rules = project / ".claude" / "rules" / "ace-skillbook.md"
    assert f"- [checks-00001] {check_world.RULE}" in rules.read_text(encoding="utf-8")
    assert agents[-1].text.count(check_world.RULE) == 1
    # Another runner, as another session would, finds them by the file alone.
    server.clear()
    runner_in(project, claude, skill_file=None).run([check_world.TASK])
    assert check_world.has_rule(server.requests[0])


def test_the_managed_block_of_claude_md_keeps_the_rest_of_it(claude: str, project: Path, serving: ServerFor) -> None:
    check_world.lay_out(project)
    serving(check_world.play)
    (project / "CLAUDE.md").write_bytes(b"# Notes\r\n\r\nBe kind.\r\n")
    runner = runner_in(project, claude, skill_file="CLAUDE.md")
    runner.run([check_world.TASK])
    text = (project / "CLAUDE.md").read_bytes()
    assert text.startswith(b"# Notes\r\n\r\nBe kind.\r\n")
    assert check_world.RULE.encode() in text
    assert not (project / ".claude" / "rules").exists()


def test_a_failed_run_is_learned_from_and_is_no_error(claude: str, project: Path, serving: ServerFor) -> None:
    check_world.lay_out(project)
    serving(check_world.play)
    # Nothing is allowed: the tool is denied, and the run has failed.
    runner = runner_in(project, claude, allowed_tools=[], permission_mode="default")
    [result] = runner.run([check_world.TASK])
    assert trace_of(result)["success"] is False
    assert result.output is not None and result.output.reflection is not None
    assert runner.learning_stats["completed"] == 1


def test_nothing_is_learned_from_a_cancelled_run(claude: str, project: Path, serving: ServerFor) -> None:
    check_world.lay_out(project)
    server = serving(check_world.play)
    token = CancellationToken()
    token.cancel()
    runner = runner_in(project, claude)
    [result] = runner.run([check_world.TASK], cancel_token=token)
    assert isinstance(result.error, PipelineCancelled)
    assert server.requests == []


def test_a_saved_book_is_loaded(claude: str, project: Path, home: Path, serving: ServerFor) -> None:
    check_world.lay_out(project)
    serving(check_world.play)
    path = home / "skills.json"
    book = Skillbook()
    book.add_skill("checks", check_world.RULE)
    book.save_to_file(path)
    runner = runner_in(project, claude, skill_file=None)
    runner.load(path)
    [result] = runner.run([check_world.TASK])
    assert trace_of(result)["success"] is True


def test_the_steps_can_be_looked_at(claude: str, project: Path) -> None:
    client = ClaudeCodeLLMClient(claude=claude)
    steps = ClaudeCode.build_steps(
        working_dir=project,
        claude=claude,
        reflector=Reflector(client),
        skill_manager=SkillManager(client),
        skillbook=Skillbook(),
    )
    names = [type(step).__name__ for step in steps]
    assert names[:2] == ["ClaudeCodeExecuteStep", "ClaudeCodeToTrace"]
    assert isinstance(steps[-1], SkillFileStep)


def test_a_wrong_option_is_named(claude: str, project: Path) -> None:
    with pytest.raises(TypeError, match="hologram"):
        runner_in(project, claude, hologram=1)


@pytest.mark.parametrize(
    ("given", "meant"), [("skill_book", "skillbook"), ("base_url", "api_base"), ("turns", "max_turns")]
)
def test_a_misspelt_option_is_suggested(project: Path, given: str, meant: str) -> None:
    options: dict[str, Any] = {given: 1}
    with pytest.raises(TypeError, match=rf"ClaudeCode\.from_model\(\) got .*'{given}'; did you mean '{meant}'\?"):
        ClaudeCode.from_model(working_dir=project, **options)


def test_the_address_of_the_model_that_learns(claude: str, project: Path) -> None:
    runner: Any = ClaudeCode.from_model(
        working_dir=project, claude=claude, ace_model="openai/x", api_base="http://127.0.0.1:1", api_key="k"
    )
    reflect = next(step for step in runner.pipeline.steps if hasattr(step, "reflector"))
    assert reflect.reflector.llm.config.api_base == "http://127.0.0.1:1"
