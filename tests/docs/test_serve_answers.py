"""The commands of the tutorial on the service work as they are written, in two terminals, with a scripted model."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.console_commands import BLOCK
from tests.support.command_line import ACE, command_environment
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.workspace.project import ROOT

PAGE = ROOT / "docs" / "tutorials" / "serve-answers.md"
RULE = "Divide amounts of the table orders by 100 to get euros."
END = "--- end of the command, with code "


def script(request: ScriptedRequest) -> Mapping[str, Any] | str:
    if request.role == "reflector":
        learned = [{"learning": RULE}] if "Amounts in our table orders are in cents" in request.text else []
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
        return {**dict.fromkeys(texts, "Looked at the feedback."), "extracted_learnings": learned}
    if request.role == "skill_manager":
        new = f'"learning": "{RULE}"' in request.text and f"] {RULE}" not in request.text
        add = [{"type": "ADD", "section": "money", "content": RULE}] if new else []
        return {"reasoning": "What is new goes in.", "operations": add}
    if request.role == "skill_manager_together":
        return {"updates": [{"reflection": 1, "operations": [{"type": "ADD", "section": "money", "content": RULE}]}]}
    if request.role == "agent":
        return {"reasoning": "I look.", "final_answer": f"{1250 if RULE in request.text else 125000:.2f} euros"}
    return "ready"


class Terminal:
    """A shell in which each command finds what the one before has changed."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def run(self, line: str) -> tuple[int, str]:
        """Type one line; return its exit code and what it printed."""
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f"{line}\ncode=$?; echo; echo '{END}'$code\n")
        self.shell.stdin.flush()
        printed: list[str] = []
        for text in self.shell.stdout:
            if text.startswith(END):
                return int(text.removeprefix(END)), "".join(printed).strip()
            printed.append(text)
        raise AssertionError(f"the shell ended at {line!r}: {''.join(printed)}")

    def close(self) -> None:
        """End the shell."""
        self.shell.communicate()


def lines_of(page: str) -> list[str]:
    lines = [line for block in BLOCK.finditer(page) for line in block["body"].splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    with ScriptedServer(script) as model:
        settings = {
            "ACE_MODEL": "openai/scripted",
            "ACE_API_BASE": model.api_base,
            "OPENAI_API_KEY": "none",
            "ACE_SERVER_SCHEDULE_SECONDS": "0.2",  # the reader waits for ten seconds
            "PATH": os.pathsep.join([str(ACE.parent), os.environ["PATH"]]),
            "no_proxy": "*",
        }
        found = command_environment(tmp_path, settings)
        del found["SOURCE_DATE_EPOCH"], found["ACE_UNPROVEN"]
        yield found


def test_the_commands_of_the_page_work(tmp_path: Path, environ: Mapping[str, str]) -> None:
    lines = lines_of(PAGE.read_text(encoding="utf-8"))
    start = next(place for place, line in enumerate(lines) if "ace server run" in line)
    assert lines[:start] == ["mkdir shop", "cd shop"]
    folder = tmp_path / "shop"
    folder.mkdir()
    with (tmp_path / "stderr.txt").open("wb") as errors:
        server = subprocess.Popen(
            ["bash", "-c", f"{lines[start].replace('ace server', 'exec ace server')} --port 0"],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stderr=errors,
        )
    terminal = Terminal(folder, environ)
    try:
        while "works once" not in (said := (tmp_path / "stderr.txt").read_text(encoding="utf-8")):
            assert server.poll() is None, said
            time.sleep(0.05)
        [port] = set(re.findall(r"http://127\.0\.0\.1:(\d+)", said))
        assert any("http://127.0.0.1:8765" in line for line in lines)
        printed: dict[str, list[str]] = {}
        for line in lines[start + 1 : -1]:
            code, text = terminal.run(line.replace("8765", port))
            assert code == 0, (line, text)
            printed.setdefault(line, []).append(text)
        server.send_signal(signal.SIGTERM)
        assert server.wait() == 0
        code, status = terminal.run(lines[-1])
    finally:
        terminal.close()
        server.kill()
        server.wait()
    assert printed["field answer < answer.json"] == ["125000.00 euros"]
    [better] = [text for line, [text] in printed.items() if line.endswith("| field answer")]
    assert better == "1250.00 euros"
    [state] = [text for line, [text] in printed.items() if line.endswith("state")]
    assert state == "published"
    assert RULE in printed["ace skillbook show --skillbook ace-server/books/default.db"][0]
    assert "shop-app" in printed["ace server keys list"][0]
    assert (code, status.splitlines()[0].startswith("default: version")) == (0, True)
