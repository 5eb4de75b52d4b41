"""The commands of the how-to on testing a skillbook run in their order, and print what the page says."""

import doctest
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.docs.console_commands import BLOCK, run_line
from tests.support.command_line import Done, Run
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


@pytest.fixture
def shell(here: Run, tmp_path: Path, server: ScriptedServer) -> Callable[[str], Done]:
    environ = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base}
    return lambda command: run_line(command, here, tmp_path, environ)


def words(text: str) -> str:
    """A text without the widths of its columns, and without the time."""
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_every_command_prints_what_the_page_says(shell: Callable[[str], Done]) -> None:
    ran = 0
    for command, printed in steps():
        done = shell(command)
        assert done.code == 0, (command, done.out, done.err)
        matches = doctest.OutputChecker().check_output(words(printed), words(done.out), doctest.ELLIPSIS)
        assert matches, (command, done.out)
        ran += 1
    assert ran >= 8


def test_the_example_for_ci_asks_nothing_twice_and_fails_where_it_should(
    shell: Callable[[str], Done], tmp_path: Path, server: ScriptedServer
) -> None:
    export = "ace skillbook export skills.json --yes"
    [test] = CI.findall(TEXT)
    for command, _ in list(steps())[:2]:
        shell(command)
    for _ in range(2):
        done = shell(f"{export} && {test}")
        assert done.code == 0, (done.out, done.err)
        assert len(server.by_role("agent")) == 2
    assert ElementTree.parse(tmp_path / "report.xml").getroot().get("tests") == "2"
    shell('ace skillbook add tides "Write times as 2:30 pm, in every table."')
    assert shell(f"{export} && {test}").code == 1
