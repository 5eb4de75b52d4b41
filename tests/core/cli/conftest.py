"""A folder of traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


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
