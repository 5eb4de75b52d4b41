"""The binary as a client of a language model, apart from everything that the user has set up."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ace.calls import CallScope, answer_budget, call_scope
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.protocols import LLMAuthenticationError, LLMCallError, LLMClientLike, UnusableAnswerError
from ace.protocols.observers import Event, ModelCalled, observing
from ace.skillbook import Skillbook
from ace_claude_code import ClaudeCodeLLMClient, ClaudeCodeLLMConfig
from tests.claude_code.conftest import ServerFor
from tests.support.scripted_anthropic_server import Refusal, Reply, Request, Text, ToolUse

SKILL = {"reasoning": "r", "operations": [{"type": "ADD", "section": "s", "content": "C"}]}


def test_an_answer_comes_with_its_usage(claude: str, home: Path, serving: ServerFor) -> None:
    server = serving(lambda request: [Text(request.text.split("Say ")[-1])])
    client = ClaudeCodeLLMClient("claude-sonnet-4-5", claude=claude)
    assert isinstance(client, LLMClientLike)
    response = client.complete("Say hello", system="Be brief.", max_tokens=16)
    assert response.text == "hello"
    assert (response.usage.calls, response.usage.input_tokens, response.usage.output_tokens) == (1, 1000, 50)
    assert client.usage == response.usage
    [request] = server.requests
    assert "Be brief." in request.system
    assert request.tools == []
    assert request.body["model"].startswith("claude-sonnet-4-5")


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"), [("end_turn", "stop"), ("stop_sequence", "stop"), ("pause_turn", "pause_turn")]
)
def test_observers_are_told_of_each_answer(
    stop_reason: str, finish_reason: str, claude: str, home: Path, serving: ServerFor
) -> None:
    server = serving(lambda request: [Text("hello")])
    server.stop_reason = stop_reason
    events: list[Event] = []
    with closing(Skillbook.open(home / "skills.db")) as book, observing(events.append):
        for _ in range(2):
            with call_scope(CallScope(run_id="r", epoch=1, sample="s", store=book.store).asked_by("Agent")):
                ClaudeCodeLLMClient(claude=claude).complete("Say hello", system="Be brief.")
    calls = [event for event in events if isinstance(event, ModelCalled)]
    assert [(call.finish_reason, call.answer, call.recorded) for call in calls] == [
        (finish_reason, "hello", False),
        (finish_reason, "hello", True),
    ]
    assert all("Say hello" in str(call.prompt) for call in calls)


def test_a_conversation_is_sent_as_one_prompt(claude: str, home: Path, serving: ServerFor) -> None:
    server = serving(lambda request: [Text("Thirty.")])
    client = ClaudeCodeLLMClient("claude-sonnet-4-5", claude=claude)
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How tall is it?"},
        {"role": "assistant", "content": "98 feet."},
        {"role": "user", "content": "In metres?"},
    ]
    assert client.complete_messages(messages, model="claude_code/claude-haiku-4-5").text == "Thirty."
    assert client.complete_messages(messages[:2]).text == "Thirty."
    first, second = server.requests
    assert "Be brief." in first.system
    assert "How tall is it?\n\n# Your answer\n\n98 feet.\n\n# Next message\n\nIn metres?" in first.prompt
    assert first.body["model"].startswith("claude-haiku-4-5")
    assert second.body["model"].startswith("claude-sonnet-4-5")
    assert "# Your answer" not in second.text


def test_a_prompt_may_be_longer_than_an_argument(claude: str, home: Path, serving: ServerFor) -> None:
    serving(lambda request: [Text(str(request.text.count("word")))])
    assert ClaudeCodeLLMClient(claude=claude).complete("--x " + "word " * 60_000).text == "60000"


def test_nothing_of_the_user_is_loaded_run_or_stored(
    claude: str, home: Path, serving: ServerFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serving(lambda request: [Text("ok")])
    seen = home / "hook-ran"
    hook = {"hooks": [{"type": "command", "command": f"touch '{seen}'"}]}
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"hooks": {"SessionStart": [hook], "SessionEnd": [hook]}}), encoding="utf-8")
    (home / ".claude" / "CLAUDE.md").write_text("MARK of the user", encoding="utf-8")
    (home / "CLAUDE.md").write_text("MARK of the project", encoding="utf-8")
    server_of_tools = {"command": sys.executable, "args": ["-c", f"open({str(seen)!r}, 'w')"]}
    (home / ".mcp.json").write_text(json.dumps({"mcpServers": {"spy": server_of_tools}}), encoding="utf-8")
    monkeypatch.chdir(home)
    ClaudeCodeLLMClient(claude=claude).complete("Hello")
    assert not seen.exists()
    assert "MARK" not in server.requests[0].text
    assert list(home.rglob("projects/*/*.jsonl")) == []


def test_a_structured_answer_is_made_by_the_schema(claude: str, home: Path, serving: ServerFor) -> None:
    def script(request: Request) -> Reply:
        schema = next(tool["input_schema"] for tool in request.body["tools"] if tool["name"] == "StructuredOutput")
        answer = SKILL if "operations" in schema["properties"] else dict.fromkeys(schema["required"], "x")
        return [Text("Given.")] if request.tool_results else [ToolUse("StructuredOutput", answer)]

    serving(script)
    client = ClaudeCodeLLMClient(claude=claude)
    assert client.complete_structured("Reflect", ReflectorOutput).key_insight == "x"
    managed = client.complete_structured("Manage", SkillManagerOutput)
    assert managed.update.operations[0].content == "C"
    assert managed.raw == SKILL
    assert client.usage.calls == 2


def test_an_answer_in_words_is_asked_for_again_and_then_refused(claude: str, home: Path, serving: ServerFor) -> None:
    server = serving(lambda request: [Text("I would rather chat.")])
    client = ClaudeCodeLLMClient(config=ClaudeCodeLLMConfig(claude=claude, validation_retries=1))
    with pytest.raises(UnusableAnswerError, match="no JSON object in the answer") as raised:
        client.complete_structured("Answer", AgentOutput)
    assert raised.value.raw_answers == ("I would rather chat.", "I would rather chat.")
    assert "This answer cannot be used: no JSON" in server.requests[-1].text


def test_the_second_answer_is_taken_when_it_is_good(claude: str, home: Path, serving: ServerFor) -> None:
    def script(request: Request) -> Reply:
        if "# Your answer" not in request.text:
            return [Text("I would rather chat.")]
        answer = {"reasoning": "r", "final_answer": "4"}
        return [Text("Given.")] if request.tool_results else [ToolUse("StructuredOutput", answer)]

    serving(script)
    assert ClaudeCodeLLMClient(claude=claude).complete_structured("2+2?", AgentOutput).final_answer == "4"


def test_an_answer_budget_bounds_the_retries(claude: str, home: Path, serving: ServerFor) -> None:
    serving(lambda request: [Text("words")])
    with answer_budget(1), pytest.raises(UnusableAnswerError, match="after 1 answer"):
        ClaudeCodeLLMClient(claude=claude).complete_structured("Answer", AgentOutput)


def test_a_refused_key_says_what_to_do(claude: str, home: Path, serving: ServerFor) -> None:
    serving(lambda request: Refusal(401, "invalid x-api-key"))
    client = ClaudeCodeLLMClient(claude=claude)
    with pytest.raises(LLMAuthenticationError, match="run 'claude' and log in with /login, or set ANTHROPIC_API_KEY"):
        client.complete("Hello")
    assert client.usage.failed_requests == 1


def test_without_a_login_it_is_said(claude: str, home: Path) -> None:
    with pytest.raises(LLMAuthenticationError, match="not logged in"):
        ClaudeCodeLLMClient(claude=claude).complete("Hello")


def test_an_error_of_the_server_has_its_status(claude: str, home: Path, serving: ServerFor) -> None:
    serving(lambda request: Refusal(529, "overloaded"))
    with pytest.raises(LLMCallError, match=r"Claude Code gave no answer: .*529") as raised:
        ClaudeCodeLLMClient(claude=claude).complete("Hello")
    assert raised.value.status_code == 529


def test_a_call_that_takes_too_long_is_stopped(claude: str, home: Path, serving: ServerFor) -> None:
    serving(lambda request: Refusal(529, "late", delay=60))
    with pytest.raises(LLMCallError, match=r"it was stopped after 0\.5 seconds"):
        ClaudeCodeLLMClient(claude=claude, timeout=0.5).complete("Hello")


def test_an_own_server_and_key_go_to_the_binary(claude: str, home: Path, serving: ServerFor) -> None:
    server = serving(lambda request: [Text("ok")])
    client = ClaudeCodeLLMClient(claude=claude, api_base=server.url, api_key="sk-own", temperature=0.0, max_tokens=9)
    assert client.complete("Hello").text == "ok"
    assert "sk-own" not in repr(client.config)


def test_a_recorded_answer_is_not_asked_for_again(claude: str, home: Path, serving: ServerFor) -> None:
    def script(request: Request) -> Reply:
        answer = {"reasoning": "r", "final_answer": "4"}
        return [Text("Given.")] if request.tool_results else [ToolUse("StructuredOutput", answer)]

    server = serving(script)
    with closing(Skillbook.open(home / "skills.db")) as book:
        for _ in range(2):
            client = ClaudeCodeLLMClient(claude=claude)
            with call_scope(CallScope(run_id="r", epoch=1, sample="s", store=book.store).asked_by("Agent")):
                assert client.complete_structured("2+2?", AgentOutput).final_answer == "4"
            asked = len(server.requests)
            server.clear()
    assert asked == 0
    assert client.usage.calls == 0


@pytest.mark.parametrize("settings", [{"timeout": 0}, {"validation_retries": -1}])
def test_bad_numbers_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        ClaudeCodeLLMConfig(**settings)  # type: ignore[arg-type]  # wrong on purpose
