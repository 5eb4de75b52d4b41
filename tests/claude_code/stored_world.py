"""Sessions of a project as Claude Code stores them, and the command that learns from them."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from ace.skillbook import Skillbook
from tests.claude_code.samples import assistant, user
from tests.support.command_line import ACE, Done, Run, command_environment
from tests.support.scripted_server import ScriptedServer

CONFIG = {"CLAUDE_CONFIG_DIR": ""}


def key_of(project: Path) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in str(project))


def store(project: Path, name: str, *records: dict[str, Any], root: Path | None = None) -> Path:
    """Store a session as Claude Code does, in the home folder `root`; by default that is beside the project."""
    path = (root or project.parent) / ".claude" / "projects" / key_of(project) / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"sessionId": name, "cwd": str(project), **record}) for record in records]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def turn(word: str) -> list[dict[str, Any]]:
    return [user(f"Do the job {word}.", f"u-{word}"), assistant(f"LESSON {word}", f"a-{word}", f"u-{word}")]


def arguments(server: ScriptedServer, project: Path) -> list[str]:
    model = ("--model", "openai/scripted", "--api-base", server.api_base)
    return ["claude-code", "learn", *model, "--json", "--all", "--project", str(project)]


def learn(here: Run, server: ScriptedServer, project: Path) -> Done:
    return here(*arguments(server, project), folder=project.parent, environ=CONFIG)


def start_learning(server: ScriptedServer, project: Path) -> subprocess.Popen[bytes]:
    environ = {**command_environment(project.parent, CONFIG), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [ACE, *arguments(server, project)], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def learned(project: Path) -> tuple[list[str], list[str]]:
    """Return the questions that were noted, and the skills."""
    folder = project.parent / ".claude" / "ace" / "projects" / key_of(project)
    notes = [json.loads(line) for line in (folder / "learned.jsonl").read_text(encoding="utf-8").splitlines()]
    with closing(Skillbook.open(folder / "skillbook.db")) as book:
        return sorted(note["question"] for note in notes), sorted(skill.content for skill in book.skills())


def learned_skills(words: tuple[str, ...]) -> list[str]:
    return sorted(f"Remember LESSON {word}." for word in words)
