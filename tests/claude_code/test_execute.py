"""The real binary does tasks, and every way in which a run can end is told."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.environments import Sample
from ace.pipeline import Pipeline
from ace_claude_code import ClaudeCodeExecuteStep, ClaudeUsageError, transcript_to_trace
from tests.claude_code.conftest import ServerFor
from tests.claude_code.steps import bash, book, run
from tests.support.scripted_anthropic_server import Refusal, Reply, Request, Text, Thinking, ToolUse


def writes_greeting(request: Request) -> Reply:
    if not request.tools:
        return [Text("A title")]
    cited = " by [shell-00001]" if "[shell-00001] Greet warmly." in request.system else ""
    if request.answers_so_far == 0:
        return [Thinking("A file is wanted."), ToolUse("Write", {"file_path": "hello.txt", "content": "hello\n"})]
    return [Text(f"Written{cited}.")]


def test_a_task_is_done_with_the_skills_in_the_system_prompt(claude: str, project: Path, serving: ServerFor) -> None:
    server = serving(writes_greeting)
    result = run(ClaudeCodeExecuteStep(project, claude=claude), "Write hello.txt", book("Greet warmly."))
    assert (project / "hello.txt").read_text(encoding="utf-8") == "hello\n"
    assert (result.task, result.success, result.error) == ("Write hello.txt", True, None)
    assert result.output == "Written by [shell-00001]."
    assert result.skill_ids == ("shell-00001",)
    assert (result.returncode, result.turns, result.timed_out) == (0, 2, False)
    assert (result.input_tokens, result.output_tokens) == (2000, 100)
    assert result.cost_usd > 0
    assert result.session_id
    assert "thought\nA file is wanted." in result.execution_trace
    assert "result Write\n" in result.execution_trace
    assert all("Write hello.txt" in request.text for request in server.requests if request.tools)


def test_without_skills_nothing_is_added_to_the_system_prompt(claude: str, project: Path, serving: ServerFor) -> None:
    server = serving(writes_greeting)
    assert run(ClaudeCodeExecuteStep(project, claude=claude), "Write hello.txt").output == "Written."
    assert "Skills learned" not in server.requests[-1].system


def test_a_prompt_may_look_like_an_option_and_be_long(claude: str, project: Path, serving: ServerFor) -> None:
    server = serving(lambda request: [Text("ok")])
    task = "--help " + "long " * 60_000
    assert run(ClaudeCodeExecuteStep(project, claude=claude), Sample(task, context="The end.")).success
    assert any(task.strip() in request.text and "The end." in request.text for request in server.requests)


def test_a_skillbook_may_be_larger_than_an_argument(claude: str, project: Path, serving: ServerFor) -> None:
    server = serving(lambda request: [Text("ok")])
    skillbook = book(*(f"Strategy {number}: {'word ' * 40}" for number in range(800)))
    assert run(ClaudeCodeExecuteStep(project, claude=claude), "Go.", skillbook).success
    assert any("Strategy 799" in request.system for request in server.requests)
    step = ClaudeCodeExecuteStep(project, claude=claude, skill_budget_tokens=100)
    server.clear()
    assert run(step, "Strategy 500?", skillbook).success
    assert any("Strategy 500" in request.system and "Strategy 799" not in request.system for request in server.requests)


def test_a_resumed_session_gets_the_skills_of_now(claude: str, project: Path, serving: ServerFor) -> None:
    server = serving(lambda request: [Text("ok")])
    first = run(ClaudeCodeExecuteStep(project, claude=claude), "One.", book("Old skill."))
    server.clear()
    second = run(ClaudeCodeExecuteStep(project, claude=claude, resume=first.session_id), "Two.", book("New skill."))
    assert second.session_id == first.session_id
    # Recent releases tell what the whole session has cost; the second run cost as much as the first.
    assert second.cost_usd == pytest.approx(first.cost_usd)
    metrics = transcript_to_trace(second)["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["cost_usd"] == second.cost_usd
    asked = next(request for request in server.requests if "Two." in request.text)
    assert "One." in asked.text
    assert "New skill." in asked.system
    assert "Old skill." not in asked.system


def test_a_denied_tool_is_no_success(claude: str, project: Path, serving: ServerFor) -> None:
    serving(lambda request: [Text("I may not.")] if request.tool_results else [bash("python3 publish.py")])
    result = run(ClaudeCodeExecuteStep(project, claude=claude, permission_mode="default"), "Publish.")
    assert (result.returncode, result.success, result.error) == (0, False, "The tool Bash was denied.")
    [denial] = result.permission_denials
    assert denial["tool_name"] == "Bash"


def test_a_command_that_fails_is_no_failed_run(claude: str, project: Path, serving: ServerFor) -> None:
    serving(lambda request: [Text("Not there.")] if request.tool_results else [bash("ls nothing_here")])
    result = run(ClaudeCodeExecuteStep(project, claude=claude, allowed_tools=["Bash"]), "Look.")
    assert result.success
    assert "result Bash (failed)\nExit code 2" in result.execution_trace


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_turns": 2}, r"max_turns: Reached maximum number of turns \(2\)"),
        ({"max_budget_usd": 0.000001}, r"budget\w*: Reached maximum budget"),
    ],
)
def test_a_limit_is_a_failure_that_names_it(
    limit: dict[str, Any], reason: str, claude: str, project: Path, serving: ServerFor
) -> None:
    serving(lambda request: [bash(f"echo {request.answers_so_far}")])
    result = run(ClaudeCodeExecuteStep(project, claude=claude, allowed_tools=["Bash"], **limit), "Go on.")
    assert (result.success, result.returncode) == (False, 1)
    assert result.error is not None
    assert re.search(reason, result.error)


@pytest.mark.parametrize("status", [400, 529])
def test_an_error_of_the_api_is_a_failure_though_its_subtype_is_success(
    status: int, claude: str, project: Path, serving: ServerFor
) -> None:
    serving(lambda request: Refusal(status, "not today"))
    result = run(ClaudeCodeExecuteStep(project, claude=claude), "Go.")
    assert not result.success
    assert result.error is not None
    assert f"(status {status})" in result.error
    assert result.events[-1]["subtype"] == "success"


def test_an_unknown_session_is_a_failure_with_the_reason(claude: str, project: Path, serving: ServerFor) -> None:
    serving(lambda request: [Text("ok")])
    result = run(ClaudeCodeExecuteStep(project, claude=claude, resume="00000000-0000-4000-8000-00000000dead"), "Go.")
    assert not result.success
    assert "No conversation found" in str(result.error)


def test_sub_agents_run_in_the_foreground_so_that_there_is_one_result(
    claude: str, project: Path, serving: ServerFor
) -> None:
    def script(request: Request) -> Reply:
        if "SUBTASK" in request.prompt and "PARENT" not in request.prompt:
            return [Text("sub done")] if request.tool_results else [bash("ls")]
        if request.tool_results:
            return [Text("parent done")]
        task = {"description": "List", "prompt": "SUBTASK: list", "subagent_type": "general-purpose"}
        return [ToolUse("Agent", {**task, "run_in_background": True})]

    serving(script)
    result = run(ClaudeCodeExecuteStep(project, claude=claude, allowed_tools=["Bash", "Agent"]), "PARENT")
    assert result.output == "parent done"
    assert sum(event["type"] == "result" for event in result.events) == 1
    assert "call sub-agent: Bash" in result.execution_trace


def test_of_two_results_in_one_stream_the_last_one_counts(claude: str, project: Path, serving: ServerFor) -> None:
    is_asked_again = threading.Event()

    def script(request: Request) -> Reply:
        if "SUBTASK" in request.prompt and "PARENT" not in request.prompt:
            if not request.tool_results:
                return [bash("ls")]
            is_asked_again.wait()
            return [Text("sub done")]
        if not request.tool_results:
            task = {"description": "List", "prompt": "SUBTASK: list", "subagent_type": "general-purpose"}
            return [ToolUse("Agent", {**task, "run_in_background": True})]
        is_asked_again.set()
        return [Text("It is done." if "sub done" in request.text else "It is under way.")]

    serving(script)
    # As a user runs it; our own runs keep sub-agents in the foreground.
    command = [claude, "-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash,Agent"]
    done = subprocess.run(command, input="PARENT", cwd=project, capture_output=True, encoding="utf-8", check=True)
    results = [event for line in done.stdout.splitlines() if (event := json.loads(line))["type"] == "result"]
    assert [event["result"] for event in results] == ["It is under way.", "It is done."]
    trace = transcript_to_trace(done.stdout)
    assert (trace["answer"], trace["success"]) == ("It is done.", True)


def test_several_at_once_do_not_mix(claude: str, project: Path, serving: ServerFor) -> None:
    def script(request: Request) -> Reply:
        number = next(number for number in range(8) if f"TASK{number}" in request.prompt)
        return [Text(f"answer {number}")]

    serving(script)
    pipeline = Pipeline[ACEStepContext]([ClaudeCodeExecuteStep(project, claude=claude)])
    contexts = [ACEStepContext(sample=f"TASK{number}", skillbook=SkillbookView(book())) for number in range(8)]
    outputs = [result.output for result in pipeline.run(contexts, workers=4)]
    assert [output and getattr(output.trace, "output", None) for output in outputs] == [
        f"answer {number}" for number in range(8)
    ]


def test_wrong_arguments_are_an_error_and_no_result(claude: str, project: Path, home: Path) -> None:
    with pytest.raises(ClaudeUsageError, match="unknown option '--hologram'"):
        run(ClaudeCodeExecuteStep(project, claude=claude, extra_args=["--hologram"]), "Go.")
