"""The commands of the how-to on testing a skillbook run in a shell, in their order, and print what the page says."""

import doctest
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.docs.console_commands import BLOCK
from tests.support.command_line import ACE, command_environment
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.workspace.project import ROOT

PAGE = ROOT / "docs" / "how-to" / "test-a-skillbook.md"
TEXT = PAGE.read_text(encoding="utf-8")
CI = re.compile(r"^  - run: (.*)$", re.MULTILINE)
"""The commands of the example for CI."""


def script(request: ScriptedRequest) -> Mapping[str, Any] | str:
    if request.role != "agent":
        return "ready"
    if "Who signs" in request.text:
        is_known = "Petersen signs" in request.text or request.model == "stronger"
        return {"reasoning": "I look.", "final_answer": "Petersen" if is_known else "Anna"}
    coded = "as 14h30" in request.text and "as 2:30 pm, in every table" not in request.text
    return {"reasoning": "I look.", "final_answer": "14h30" if coded else "2:30 pm"}


def steps() -> Iterator[tuple[str, str]]:
    """Each command of the page with what it prints."""
    for block in BLOCK.finditer(TEXT):
        for part in block["body"].split("$ ")[1:] if block["body"].startswith("$ ") else []:
            command, _, printed = part.partition("\n")
            yield command, printed


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as started:
        yield started


def shell(command: str, folder: Path, server: ScriptedServer) -> subprocess.CompletedProcess[str]:
    environ = command_environment(folder, {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base})
    path = f"{ACE.parent}:{environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env={**environ, "PATH": path}, capture_output=True, text=True, check=False
    )


def words(text: str) -> str:
    """A text without the widths of its columns, and without the time."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_every_command_prints_what_the_page_says(tmp_path: Path, server: ScriptedServer) -> None:
    ran = 0
    for command, printed in steps():
        done = shell(command, tmp_path, server)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        matches = doctest.OutputChecker().check_output(words(printed), words(done.stdout), doctest.ELLIPSIS)
        assert matches, (command, done.stdout)
        ran += 1
    assert ran >= 8


def test_the_example_for_ci_asks_nothing_twice_and_fails_where_it_should(
    tmp_path: Path, server: ScriptedServer
) -> None:
    export = "ace skillbook export skills.json --yes"
    [test] = CI.findall(TEXT)
    for command, _ in list(steps())[:2]:
        shell(command, tmp_path, server)
    for _ in range(2):
        done = shell(f"{export} && {test}", tmp_path, server)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert len(server.by_role("agent")) == 2
    assert ElementTree.parse(tmp_path / "report.xml").getroot().get("tests") == "2"
    shell('ace skillbook add tides "Write times as 2:30 pm, in every table."', tmp_path, server)
    assert shell(f"{export} && {test}", tmp_path, server).returncode == 1
