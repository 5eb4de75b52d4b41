"""A scripted model that learns, and a folder of traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

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
