"""The user's coding agents: how they are started to try a lesson, and what they need to reach their model.

Of the user's home folder, an agent sees only a copy of its credentials, without the token that renews them: an agent
that renews a copy would make the user's own one invalid. Its settings, hooks, plugins and servers are not used.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from ace_sleep.bridge import Host

__all__ = ["AgentName", "CodingAgent", "NoAgentError", "find_agent"]

AgentName = Literal["claude", "codex"]

_FOR_CLAUDE: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_MAX_RETRIES",
)
"""The variables that Claude Code needs, from the environment or from its settings."""
_FOR_CODEX: Final = ("OPENAI_API_KEY", "CODEX_API_KEY")
_MODEL_OF_CODEX: Final = ("model", "model_provider", "model_reasoning_effort")
_TOOLS_OF_CLAUDE: Final = "Bash,Edit,Write,NotebookEdit,Skill"
"""The tools that ask for permission otherwise."""


class NoAgentError(Exception):
    """An agent cannot be used here; the message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingAgent:
    """A coding agent that is started to try a lesson."""

    title: str
    """Its name, for people."""
    command: Sequence[str]
    """The program and its arguments; the prompt is its standard input."""
    environment: Mapping[str, str]
    files: Mapping[str, str]
    """The files in its home folder, by their names there."""
    hosts: Sequence[Host]
    """The hosts of its model."""
    sessions: str
    """The folder in its home folder where it stores sessions."""

    @property
    def programs(self) -> list[str]:
        """The folders that it is loaded from."""
        program = Path(self.command[0])
        packages = [folder for folder in program.parents if folder.name == "node_modules"]
        return [str(packages[-1] if packages else program.parent)]

    def lay_out(self, home: Path, prompt: str) -> None:
        """Write its files, and the prompt.

        Args:
            home: Its home folder, which is empty.
            prompt: What it is asked.
        """
        for name, text in {**self.files, "prompt": prompt}.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")


def find_agent(name: AgentName) -> CodingAgent:
    """Return an agent of the user.

    Args:
        name: The name of its program.

    Raises:
        NoAgentError: It is not installed, or its settings cannot be used in a sandbox.
    """
    program = shutil.which(name)
    if program is None:
        raise NoAgentError(f"the program {name} is not on PATH")
    try:
        agent = _AGENTS[name](os.path.realpath(program))
        for number, host in enumerate(agent.hosts):
            host.address(number)
    except (OSError, ValueError) as error:
        raise NoAgentError(f"the settings of {name} cannot be used: {error}") from error
    return agent


def _claude(program: str) -> CodingAgent:
    folder = _own_folder("CLAUDE_CONFIG_DIR", ".claude")
    settings = _json_in(folder / "settings.json")
    variables = {**settings.get("env", {}), **os.environ}
    environment = {name: variables[name] for name in _FOR_CLAUDE if variables.get(name)}
    environment |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    files = {}
    if credentials := _json_in(folder / ".credentials.json"):
        files[".claude/.credentials.json"] = json.dumps(_without_renewal(credentials))
    model = ["--model", str(settings["model"])] if settings.get("model") else []
    options = ["-p", "--output-format", "json", "--strict-mcp-config", "--allowedTools", _TOOLS_OF_CLAUDE]
    return CodingAgent(
        title="Claude Code",
        command=[program, *options, *model],
        environment=environment,
        files=files,
        hosts=[_host_of(environment.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com"))],
        sessions=".claude/projects",
    )


def _codex(program: str) -> CodingAgent:
    folder = _own_folder("CODEX_HOME", ".codex")
    path = folder / "config.toml"
    settings = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    used: dict[str, Any] = {name: settings[name] for name in _MODEL_OF_CODEX if name in settings}
    provider = settings.get("model_providers", {}).get(settings.get("model_provider"), {})
    if provider:
        used[f"model_providers.{settings['model_provider']}"] = provider
    options = [word for name, value in used.items() for word in ("-c", f"{name}={_as_toml(value)}")]
    names = [*_FOR_CODEX, provider.get("env_key", ""), *provider.get("env_http_headers", {}).values()]
    files = {}
    if credentials := _json_in(folder / "auth.json"):
        files[".codex/auth.json"] = json.dumps(_without_renewal(credentials))
    addresses = [provider["base_url"]] if provider else ["https://api.openai.com", "https://chatgpt.com"]
    exec_options = ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return CodingAgent(
        title="Codex CLI",
        command=[program, *exec_options, *options, "-"],
        environment={name: os.environ[name] for name in names if os.environ.get(name)},
        files=files,
        hosts=list(map(_host_of, addresses)),
        sessions=".codex/sessions",
    )


_AGENTS: Final[Mapping[AgentName, Callable[[str], CodingAgent]]] = {"claude": _claude, "codex": _codex}


def _own_folder(variable: str, name: str) -> Path:
    named = os.environ.get(variable, "")
    return Path(named) if named else Path.home() / name


def _json_in(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not a JSON object")
    return found


def _without_renewal(value: Any) -> Any:
    """Return credentials with empty tokens for renewal."""
    if not isinstance(value, dict):
        return value
    renewing = ("refresh_token", "refreshToken")
    return {name: "" if name in renewing else _without_renewal(inner) for name, inner in value.items()}


def _host_of(address: str) -> Host:
    parts = urlsplit(address)
    if not parts.hostname:
        raise ValueError(f"{address!r} is not the address of a model")
    return Host(parts.hostname, parts.port or (80 if parts.scheme == "http" else 443))


def _as_toml(value: Any) -> str:
    """Return a value of a TOML file as one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(_members(value))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _members(table: Mapping[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        yield f"{_as_toml(name)} = {_as_toml(value)}"
