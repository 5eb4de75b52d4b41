"""What a coding agent that tries lessons gets of the user's home folder."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from ace_sleep.agents import AgentName, CodingAgent, NoAgentError, find_agent
from ace_sleep.bridge import Host

TOKENS = {"accessToken": "for now", "refreshToken": "for ever", "access_token": "now", "refresh_token": "ever"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, with programs that are called as the agents."""
    programs = tmp_path / "programs" / "node_modules" / "packages"
    programs.mkdir(parents=True)
    for name in ("claude", "codex"):
        (programs / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def after(option: str, agent: CodingAgent) -> list[str]:
    """Return what follows an option, wherever it occurs."""
    return [word for before, word in zip(agent.command, agent.command[1:], strict=False) if before == option]


@pytest.mark.parametrize(
    ("name", "file", "hosts"),
    [
        ("claude", ".claude/.credentials.json", [Host("api.anthropic.com", 443)]),
        ("codex", ".codex/auth.json", [Host("api.openai.com", 443), Host("chatgpt.com", 443)]),
    ],
)
def test_credentials_are_copied_without_the_tokens_that_renew_them(
    home: Path, name: AgentName, file: str, hosts: list[Host]
) -> None:
    write(home / file, json.dumps({"login": TOKENS}))
    agent = find_agent(name)
    assert json.loads(agent.files[file])["login"] == {**TOKENS, "refreshToken": "", "refresh_token": ""}
    assert agent.hosts == hosts
    assert agent.programs == [str(home / "programs" / "node_modules")]


def test_of_the_settings_of_claude_its_model_and_its_own_variables_are_used(home: Path) -> None:
    settings = {
        "model": "opus",
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]},
        "env": {"ANTHROPIC_BASE_URL": "http://gateway.test:8080/v1", "OTHER": "value"},
    }
    write(home / ".claude" / "settings.json", json.dumps(settings))
    agent = find_agent("claude")
    assert after("--model", agent) == ["opus"]
    assert agent.environment["ANTHROPIC_BASE_URL"] == "http://gateway.test:8080/v1"
    assert "OTHER" not in agent.environment
    assert agent.hosts == [Host("gateway.test", 8080)]
    assert agent.files == {}


def test_of_the_settings_of_codex_its_model_and_its_provider_are_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = """
    model = "m"
    model_provider = "own"
    notify = ["say", "done"]
    [model_providers.own]
    name = "Own \\"quoted\\""
    base_url = "https://models.test/v1"
    env_key = "OWN_KEY"
    query_params = {"api-version" = "1"}
    stream_max_retries = 2
    [model_providers.other]
    base_url = "https://elsewhere.test"
    [mcp_servers.tools]
    command = "tools"
    """
    write(home / ".codex" / "config.toml", settings)
    monkeypatch.setenv("OWN_KEY", "secret")
    agent = find_agent("codex")
    given = tomllib.loads("\n".join(after("-c", agent)))
    assert given == {
        "model": "m",
        "model_provider": "own",
        "model_providers": {"own": tomllib.loads(settings)["model_providers"]["own"]},
    }
    assert agent.environment == {"OWN_KEY": "secret"}
    assert agent.hosts == [Host("models.test", 443)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "is not a JSON object"),
        ("{", "Expecting property name"),
        ('{"env": {"ANTHROPIC_BASE_URL": "nowhere"}}', "'nowhere' is not the address of a model"),
        ('{"env": {"ANTHROPIC_BASE_URL": "http://10.0.0.7"}}', "10.0.0.7 cannot be reached from a sandbox"),
    ],
)
def test_settings_that_cannot_be_used_are_named(home: Path, text: str, problem: str) -> None:
    write(home / ".claude" / "settings.json", text)
    with pytest.raises(NoAgentError, match=f"the settings of claude cannot be used: .*{problem}"):
        find_agent("claude")
