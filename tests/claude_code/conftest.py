"""The real binary, in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ace.cli import main
from ace_claude_code import ClaudeNotFoundError, find_claude
from ace_claude_code.binary import BINARY_VARIABLE
from tests.requirement import missing
from tests.support.scripted_anthropic_server import Script, ScriptedAnthropicServer

MARKER = f"marker-of-{os.getpid()}"
"""A word in the command lines of processes that these tests start; tests may run elsewhere on the machine meanwhile."""

HERE = Path(__file__).resolve().parents[2] / ".tools" / "claude" / "node_modules" / ".bin" / "claude"


@pytest.fixture(scope="session")
def claude() -> str:
    """The path of the binary."""
    try:
        path = str(HERE) if HERE.is_file() and BINARY_VARIABLE not in os.environ else find_claude()
    except ClaudeNotFoundError as error:
        missing("claude", str(error))
    version = subprocess.run([path, "--version"], capture_output=True, encoding="utf-8", check=False)
    if version.returncode != 0:
        missing("claude", f"{path} does not run: {version.stderr.strip()}")
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, and nothing of the user's settings in the environment."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in os.environ:
        if name.startswith(("CLAUDE", "ANTHROPIC", "ACE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "0")
    # By default, Claude Code cancels the hooks of a plugin 1.5 seconds after the end of a session.
    monkeypatch.setenv("CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS", "600000")
    return folder


@pytest.fixture
def project(home: Path) -> Path:
    """An empty folder that Claude Code works in."""
    folder = home / "project"
    folder.mkdir()
    return folder


ServerFor = Callable[[Script], ScriptedAnthropicServer]


@pytest.fixture
def serving(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerFor]:
    """Start a scripted server, which every `claude` of this test talks to."""
    started: list[ScriptedAnthropicServer] = []

    def serve(script: Script) -> ScriptedAnthropicServer:
        server = ScriptedAnthropicServer(script).__enter__()
        started.append(server)
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        return server

    yield serve
    for server in started:
        server.__exit__(None, None, None)


@contextmanager
def nothing_left(marker: str) -> Iterator[None]:
    """Check that no process whose command line holds the marker outlives the block."""
    yield
    # A process that was killed is listed until its parent, which may be the first of all, has taken notice.
    for _ in range(3000):
        if not processes_with(marker):
            return
        time.sleep(0.1)
    raise AssertionError(f"left behind: {processes_with(marker)}")


def processes_with(marker: str) -> list[str]:
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, encoding="utf-8", check=True)
    return [line for line in listed.stdout.splitlines() if marker in line]


Ace = Callable[..., dict[str, Any]]


@pytest.fixture
def ace(capsys: pytest.CaptureFixture[str]) -> Ace:
    """Run `ace claude-code ...` and return its JSON (or its words) and exit code."""

    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        done = main(["claude-code", *arguments])
        printed = capsys.readouterr()
        assert done == code, printed.err
        found: dict[str, Any] = json.loads(printed.out) if "--json" in arguments else {"out": printed.out}
        return {**found, "err": printed.err}

    return run


def files_in(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
