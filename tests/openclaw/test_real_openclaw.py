"""OpenClaw itself works headless, and is learned from: from its own database, while it runs, and by its own plugin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ace.logs import Run, Tokens, read_runs
from ace_openclaw import events_to_turn_traces, read_sessions
from ace_openclaw.home import captured_file
from tests.openclaw.learning_script import learn
from tests.openclaw.real import CORRECTION, INTERRUPTED, LESSON, QUESTION, OpenClawHome, openclaw_command, play
from tests.support.command_line import Done, ace
from tests.support.scripted_anthropic_server import ScriptedAnthropicServer
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def agents_model() -> Iterator[ScriptedAnthropicServer]:
    with ScriptedAnthropicServer(play) as server:
        yield server


def test_what_a_session_taught_is_in_the_prompt_of_the_next_one(
    tmp_path: Path, agents_model: ScriptedAnthropicServer
) -> None:
    claw = OpenClawHome(tmp_path, tuple(openclaw_command()))
    claw.lay_out(agents_model.url)
    config = (claw.state / "openclaw.json").read_bytes()

    with ScriptedServer(learn) as server:

        def openclaw(*arguments: str) -> Done:
            environ = {"OPENAI_API_KEY": "sk-scripted-0123456789"}
            return ace("openclaw", *arguments, folder=tmp_path, environ=environ)

        installed = openclaw("install", "--capture", "--model", "openai/scripted", "--api-base", server.api_base)
        assert installed.code == 0, installed.err
        for message in (QUESTION, CORRECTION):
            said = claw.say(message)
            assert said.returncode == 0, said.stderr
        assert claw.say("refuse, please", "broken").returncode != 0

        # The database and the plugin tell the same.
        database = claw.state / "agents/main/agent/openclaw-agent.sqlite"
        stored = [trace for session in read_sessions(database) for trace in events_to_turn_traces(session)]
        captured = [
            trace for session in read_sessions(captured_file(claw.state)) for trace in events_to_turn_traces(session)
        ]
        assert [trace["question"] for trace in stored] == [QUESTION, CORRECTION, "refuse, please"]
        assert [trace["trace_id"] for trace in captured] == [trace["trace_id"] for trace in stored]
        assert [trace["success"] for trace in stored] == [None, None, False]
        assert [trace["success"] for trace in captured] == [True, True, False]
        assert "result exec (failed)" in str(stored[0]["reasoning"])
        # So does an export.
        exported = claw.run(
            *("sessions", "export-trajectory", "--session-key", "agent:main:demo"),
            *("--workspace", str(claw.workspace), "--output", "demo", "--json"),
        )
        turns = events_to_turn_traces(Path(json.loads(exported.stdout)["outputDir"]))
        compared = ("trace_id", "answer", "metrics")
        assert [[turn[name] for name in compared] for turn in turns] == [
            [turn[name] for name in compared] for turn in stored[:2]
        ]

        learned = openclaw("learn", "--json")
        assert (learned.code, learned.data["turns_learned"], learned.data["turns_known"]) == (0, 3, 0), learned.err
        assert LESSON in (claw.workspace / "AGENTS.md").read_text(encoding="utf-8")
        assert openclaw("learn", "--json").data["turns_learned"] == 0

        agents_model.clear()
        claw.write_bug()
        assert claw.say(QUESTION, "next").returncode == 0
        first = next(request for request in agents_model.requests if request.tools)
        assert LESSON in first.system
        assert "ace-skillbook" in first.system
        assert openclaw("learn", "--json").data["turns_learned"] == 1
        status = openclaw("status", "--json").data
        assert [session["turns"] for session in status["sessions"]] == [2, 1, 1]

        claw.interrupt()
        check_runs(claw)

        assert openclaw("uninstall", "--delete-skills", "--yes").code == 0
        assert (claw.state / "openclaw.json").read_bytes() == config
        assert not (claw.state / "ace").exists() and not (claw.state / "extensions").exists()
        assert LESSON not in (claw.workspace / "AGENTS.md").read_text(encoding="utf-8")
        assert not (claw.workspace / "skills").exists()


def check_runs(claw: OpenClawHome) -> None:
    """Check what is read of the session that was resumed twice, the second time to be interrupted in a command."""
    found = list(read_runs(claw.state / "agents"))
    assert len(found) == 3
    [run] = [run for run in found if isinstance(run, Run) and CORRECTION in persons_words(run)]
    assert run.task == QUESTION
    assert persons_words(run) == [QUESTION, CORRECTION, INTERRUPTED]
    results = [(step.name, step.is_error) for step in run.steps if step.kind == "result"]
    assert results[:3] == [("exec", True), ("edit", False), ("exec", False)]
    assert [step.name for step in run.steps if step.kind == "call"] == ["exec", "edit", "exec", "exec"]
    assert (run.answer, run.is_interrupted) == ("mean([]) is 0 now.", True)
    assert run.tokens == Tokens(input=6000, output=300)


def persons_words(run: Run) -> list[str]:
    return [step.content for step in run.steps if step.speaker == "person"]
