"""Each command of the guide to MCP clients, in order and with what it prints, with the real Claude Code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.clients import PATIENT
from tests.requirement import missing
from tests.support.command_line import ACE, command_environment
from tests.support.scripted_anthropic_server import Reply, Request, ScriptedAnthropicServer, Text, ToolUse
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "use-ace-from-an-mcp-client.md"
HERE = ROOT / ".tools" / "claude" / "node_modules" / ".bin" / "claude"
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SKILL = "The command that runs the tests is `make test`."


def block_of(client: str, language: str) -> str:
    """Return the only block of a language in the section on a client."""
    sections = dict(_SECTION.findall(PAGE.read_text(encoding="utf-8")))
    [found] = [body for name, body in _BLOCK.findall(sections[client]) if name == language]
    return str(found)


def transcript(console: str, environment: dict[str, str], folder: Path, home: Path) -> str:
    """Run the commands of a block, and return the block with what they print now."""
    programs = {"ace": str(ACE), "claude": environment.get("ACE_CLAUDE_BINARY", "claude"), "cat": "cat"}
    lines: list[str] = []
    for command in (line for line in console.splitlines() if line.startswith("$ ")):
        program, *arguments = shlex.split(command.removeprefix("$ "))
        done = subprocess.run(
            [programs[program], *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), (command, done)
        out = done.stdout.replace(sys.executable, "/home/me/.venv/bin/python").replace(str(home), "/home/me")
        lines += [command, *(line.rstrip() for line in out.rstrip().splitlines())]
    return "".join(f"{line}\n" for line in lines)


def claude_binary() -> str:
    """The path of Claude Code."""
    found = os.environ.get("ACE_CLAUDE_BINARY") or (str(HERE) if HERE.is_file() else shutil.which("claude"))
    return found or missing("claude", "there is no claude binary")


def play(request: Request) -> Reply:
    """The model of Claude Code: it calls the tool that the prompt asks for, and says what came back."""
    if not request.tools:
        return [Text("ok")]
    question = "Which command runs the tests?"
    if request.answers_so_far == 0 and "Tell ace" in request.prompt:
        told = {"question": question, "answer": "pytest", "feedback": f"Wrong. {SKILL}"}
        return [ToolUse("mcp__ace__ace_learn_feedback", {"session_id": "shop", **told})]
    if request.answers_so_far == 0:
        return [ToolUse("mcp__ace__ace_ask", {"session_id": "shop", "question": question})]
    result: dict[str, Any] = json.loads(request.tool_results[-1])
    if "answer" in result:
        return [Text(f"ace answers: {result['answer']}. Skills used: {', '.join(result['skill_ids']) or 'none'}.")]
    return [Text(f"ace has learned: {result['skills'][0]['content']}")]


def learn(request: ScriptedRequest) -> dict[str, Any]:
    """The model of the server: it answers with the skill if the prompt has it, and learns it from feedback."""
    if request.role == "agent":
        known = re.search(rf"\[([\w-]+)\] {re.escape(SKILL)}", request.text)
        if known is None:
            return {"reasoning": "Most projects do.", "final_answer": "pytest"}
        return {"reasoning": f"[{known[1]}] says so.", "final_answer": "make test"}
    if request.role == "reflector":
        found = SKILL in request.text
        return {
            "reasoning": "The feedback names the command.",
            "error_identification": "The wrong command.",
            "root_cause_analysis": "",
            "correct_approach": "",
            "key_insight": SKILL,
            "extracted_learnings": [{"learning": SKILL}] if found else [],
            "skill_tags": [],
        }
    return {"reasoning": "", "operations": [{"type": "ADD", "section": "commands", "content": SKILL}]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    return tmp_path


def test_claude_code_answers_with_what_it_taught(home: Path) -> None:
    console = block_of("Claude Code", "console")
    with ScriptedAnthropicServer(play) as claude_model, ScriptedServer(learn) as model:
        variables = {
            "ACE_MODEL": "openai/scripted",
            "ACE_API_BASE": model.api_base,
            "OPENAI_API_KEY": "sk-scripted-0123456789",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
            "TMPDIR": str(home),
            **PATIENT,
            **claude_model.environment,
        }
        environment = {
            name: value
            for name, value in command_environment(home).items()
            if not name.startswith(("CLAUDE", "ANTHROPIC"))
        } | {**variables, "ACE_CLAUDE_BINARY": claude_binary()}
        used, uninstall, rest = console.partition("$ ace mcp uninstall")
        shown = transcript(used, environment, home / "shop", home)
        config = home / ".claude.json"
        installed = config.read_text(encoding="utf-8")
        shown += transcript(uninstall + rest, environment, home / "shop", home)
    assert "ace_mcp" in installed
    assert "sk-" not in installed
    assert shown == console
    left = config.read_text(encoding="utf-8")
    assert left == json.dumps(json.loads(left), indent=2, ensure_ascii=False)  # as Claude Code writes it
    assert {**json.loads(left), "mcpServers": json.loads(installed)["mcpServers"]} == json.loads(installed)
    assert "mcpServers" not in json.loads(left)


def test_the_transcript_for_cursor_is_what_the_commands_print(home: Path) -> None:
    console = block_of("Cursor", "console")
    assert transcript(console, command_environment(home), home, home) == console
    assert list(home.iterdir()) == [home / "shop"]


def test_the_transcript_for_vs_code_is_what_the_commands_print(home: Path) -> None:
    config = home / "shop/.vscode/mcp.json"
    config.parent.mkdir()
    config.write_text(block_of("VS Code", "json"), encoding="utf-8")
    console = block_of("VS Code", "console")
    assert transcript(console, command_environment(home), home / "shop", home) == console
    assert config.read_text(encoding="utf-8") == block_of("VS Code", "json")
