"""A scripted model that learns, a folder of traces, and the command line in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ace.cli import main
from tests.support.command_line import Done, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as started:
        yield started


@pytest.fixture
def model(server: ScriptedServer) -> list[str]:
    """The arguments that name the scripted model."""
    return ["--model", "openai/scripted", "--api-base", server.api_base]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Six good traces of three kinds."""
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = [{"task": f"t{number}", "answer": f"LESSON w{number % 3}"} for number in range(4)]
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    chat = [{"role": "user", "content": "Help."}, {"role": "assistant", "content": "LESSON chat"}]
    (folder / "b.json").write_text(json.dumps(chat), encoding="utf-8")
    (folder / "c.txt").write_text("It went wrong: LESSON text", encoding="utf-8")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run `ace` in this process and in the folder of the test: quicker, where a process of its own shows no more."""
    environ = command_environment(tmp_path)
    for name in os.environ.keys() - environ.keys():
        monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Done:
        capsys.readouterr()
        code = main([str(each) for each in arguments])
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return run
