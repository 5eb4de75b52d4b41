"""`--prompts`, the setting and its variable: a folder of prompt templates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

TEMPLATES = {
    "agent.md": "Agent of the club. {question}\n{skillbook}\n",
    "reflector.md": "Reflector of the club. {trace}\n",
    "skill_manager.md": "Manager of the club. {reflection}\n",
}


@pytest.fixture
def club(tmp_path: Path) -> Path:
    folder = tmp_path / "club"
    folder.mkdir()
    for name, text in TEMPLATES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("given", ["flag", "variable", "file", "config"])
@pytest.mark.parametrize("command", ["learn", "train"])
def test_the_templates_are_sent(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch, club: Path, given: str, command: str
) -> None:
    line = {"question": "What about w1? LESSON w1", "answer": "None."}
    (tmp_path / "in.jsonl").write_text(f"{json.dumps(line)}\n", encoding="utf-8")
    flags = ["--prompts", str(club)] if given == "flag" else []
    if given == "variable":
        monkeypatch.setenv("ACE_PROMPTS", str(club))
    if given == "file":
        (tmp_path / "ace.toml").write_text('[learning]\nprompts = "club"\n', encoding="utf-8")
    if given == "config":
        (tmp_path / "run.yaml").write_text("learning:\n  prompts: club\n", encoding="utf-8")
        flags = ["--config", "run.yaml"]
    with ScriptedServer(learning_script()) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        done = here(command, "in.jsonl", *model, *flags, "--no-prove", "--no-merge")
        assert done.code == 0, done.err
        sent = {request.text.partition(" of the club.")[0].split()[-1] for request in server.requests[1:]}
    assert {"Reflector", "Manager"} <= sent
    assert ("Agent" in sent) is (command == "train")


def test_answers_and_measurements_use_the_template_of_the_agent(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch, club: Path
) -> None:
    (tmp_path / "in.jsonl").write_text('{"question": "2+2?", "ground_truth": "4"}\n', encoding="utf-8")
    monkeypatch.setenv("ACE_PROMPTS", str(club))
    with ScriptedServer(learning_script()) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        assert here("skillbook", "add", "sums", "Add slowly.", "--case", "2+2? => 4").code == 0
        for command in (["ask", "2+2?"], ["eval", "in.jsonl"], ["skillbook", "test"]):
            server.clear()
            done = here(*command, *model)
            assert done.code in (0, 1), done.err
            agents = [request.text for request in server.requests if request.role == "agent"]
            assert agents and all("Agent of the club." in text for text in agents), command


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("agent.md", "Help.\n\n{question} {questoin}\n", ["agent.md, line 3", "unknown placeholder {questoin}"]),
        ("agent.md", "Help.\n", ["agent.md:", "lacks the placeholder {question}"]),
        ("reflector.md", "{trace}\nGive {\n", ["reflector.md, line 2", "cannot be parsed"]),
        ("skill_manager.md", "{reflection}\n{stats:>5}\n", ["skill_manager.md, line 2", "{stats:>5}"]),
        ("agents.md", "{question}", ["agents.md: not the template of a role", "agent.md, reflector.md, skill_manager"]),
        ("agent.md", b"\xff{question}", ["agent.md cannot be read: it is not UTF-8"]),
        (None, "", ["contains no template"]),
    ],
)
@pytest.mark.parametrize("command", ["learn", "train"])
def test_a_template_that_cannot_be_used_is_reported_before_a_model_is_called(
    tmp_path: Path,
    here: Run,
    server: ScriptedServer,
    model: list[str],
    command: str,
    name: str | None,
    text: str | bytes,
    named: list[str],
) -> None:
    (tmp_path / "in.jsonl").write_text('{"question": "a", "answer": "b"}\n', encoding="utf-8")
    folder = tmp_path / "prompts"
    folder.mkdir()
    if name is not None:
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    done = here(command, "in.jsonl", *model, "--yes", "--prompts", "prompts")
    assert (done.code, server.requests, (tmp_path / "skills.db").exists()) == (2, [], False)
    assert [part for part in named if part not in done.err] == [] and "Traceback" not in done.err


def test_a_missing_folder_and_one_outside_the_project_are_refused(tmp_path: Path, here: Run, model: list[str]) -> None:
    (tmp_path / "in.jsonl").write_text('{"question": "a", "answer": "b"}\n', encoding="utf-8")
    done = here("learn", "in.jsonl", *model, "--yes", "--prompts", "nowhere")
    assert done.code == 2 and "prompts: 'nowhere' cannot be read" in done.err
    (tmp_path / "ace.toml").write_text('prompts = "../elsewhere"\n', encoding="utf-8")
    done = here("learn", "in.jsonl", *model, "--yes")
    assert done.code == 2 and "line 1: 'prompts' in the file of a project" in done.err


def test_the_recursive_reflector_does_not_take_the_template_of_the_other_one(
    tmp_path: Path, here: Run, server: ScriptedServer, model: list[str], club: Path
) -> None:
    pytest.importorskip("pydantic_monty")
    (tmp_path / "in.jsonl").write_text('{"question": "a", "answer": "b"}\n', encoding="utf-8")
    done = here("learn", "in.jsonl", *model, "--yes", "--prompts", str(club), "--reflector", "recursive")
    assert (done.code, server.requests) == (2, [])
    assert "--reflector recursive cannot use reflector.md" in done.err
