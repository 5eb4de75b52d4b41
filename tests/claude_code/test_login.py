"""Without a login or a binary, everything stops at the first answer that says so, with one sentence that helps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ace.cli import main
from ace.environments import Sample
from ace.protocols import LLMAuthenticationError, LLMResponse
from ace.roles import Reflector, SkillManager
from ace_claude_code import ClaudeCode, ClaudeCodeLLMClient
from tests.claude_code.conftest import ServerFor
from tests.support.scripted_anthropic_server import Refusal


class NeverAsked:
    """A model that must not be asked for anything."""

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        raise AssertionError(f"asked: {prompt[:80]}")

    def complete_structured(self, prompt: str, response_model: type[Any], **kwargs: Any) -> Any:
        raise AssertionError(f"asked: {prompt[:80]}")


TO_DO = "run 'claude' and log in with /login"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"task": "Do it.", "feedback": "wrong"}), encoding="utf-8")
    return str(path)


def runner_for(claude: str, project: Path) -> ClaudeCode:
    model = NeverAsked()
    return ClaudeCode.from_roles(
        working_dir=project, claude=claude, reflector=Reflector(model), skill_manager=SkillManager(model)
    )


def test_without_a_login_no_further_task_begins_and_nothing_is_learned(claude: str, project: Path) -> None:
    results = runner_for(claude, project).run([Sample(f"Task {number}.") for number in range(8)], max_in_flight=1)
    assert isinstance(results[0].error, LLMAuthenticationError)
    assert TO_DO in str(results[0].error)
    assert sum(isinstance(result.error, LLMAuthenticationError) for result in results) == 1
    assert all(result.error is not None for result in results)


def test_a_key_that_is_refused_stops_the_tasks(claude: str, project: Path, serving: ServerFor) -> None:
    serving(lambda request: Refusal(401, "invalid x-api-key"))
    first, second = runner_for(claude, project).run([Sample("One."), Sample("Two.")], max_in_flight=1)
    assert isinstance(first.error, LLMAuthenticationError)
    assert not isinstance(second.error, LLMAuthenticationError)
    assert second.error is not None


def test_the_client_says_how_to_log_in(claude: str, home: Path) -> None:
    with pytest.raises(LLMAuthenticationError, match=TO_DO) as caught:
        ClaudeCodeLLMClient(claude=claude).complete("Hello")
    assert caught.value.missing_variables == ()


def test_the_command_says_how_to_log_in(
    claude: str, home: Path, trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACE_CLAUDE_BINARY", claude)
    assert main(["learn", trace, "--model", "claude_code/sonnet", "--skillbook", str(home / "b.db")]) == 2
    said = capsys.readouterr().err
    assert TO_DO in said
    assert "needs a key" not in said


def test_the_command_says_in_a_sentence_that_there_is_no_binary(
    home: Path, trace: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACE_CLAUDE_BINARY", str(home / "none"))
    assert main(["learn", trace, "--model", "claude_code/sonnet", "--skillbook", str(home / "b.db")]) == 2
    said = capsys.readouterr().err
    assert "which is not a program; give the path of the claude binary" in said
    assert "Traceback" not in said
