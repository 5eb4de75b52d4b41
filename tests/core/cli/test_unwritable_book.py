"""`ace learn` when its skillbook cannot be written any more: it stops at once, and loses nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.command_line import Done, Run, ace
from tests.support.scripted_server import ScriptedRequest, ScriptedServer


class MovesTheFolder:
    """A model in front of which somebody moves the folder of the skillbook away, at its sixth answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.away = folder.with_name("away")
        self.answers = 0

    def __call__(self, request: ScriptedRequest) -> dict[str, Any] | str:
        if not request.role:
            return "I am here."
        self.answers += 1
        if self.answers == 6:
            self.folder.rename(self.away)
            self.folder.write_text("a file where the folder was", encoding="utf-8")
        return secrets_world.answer(request)


@pytest.fixture
def moving(tmp_path: Path) -> MovesTheFolder:
    (tmp_path / "books").mkdir()
    lines = [
        json.dumps({"question": f"What is the secret of thing{n}?", "ground_truth": f"value-of-thing{n}"})
        for n in range(20)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return MovesTheFolder(tmp_path / "books")


@pytest.fixture
def server(moving: MovesTheFolder) -> Iterator[ScriptedServer]:
    with ScriptedServer(moving) as started:
        yield started


def test_a_store_is_gone_on_with_later(
    here: Run, tmp_path: Path, server: ScriptedServer, moving: MovesTheFolder
) -> None:
    learn = (
        "learn",
        "log.jsonl",
        "--skillbook",
        "books/skills.db",
        "--lag",
        "0",
        "--no-prove",
        "--model",
        "openai/scripted",
    )
    done = here(*learn, "--api-base", server.api_base)
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "was deleted, or another file took its place" in done.err
    assert done.err.splitlines()[-1] == (
        "ace: stopped, because the skillbook cannot be written; "
        "learn into the copy, or put 'books/skills.db' back and continue with --resume"
    )
    assert "save_to_file" not in done.err, "this is not advice for a command line"
    assert done.out.startswith("Stopped, because books/skills.db cannot be written\n"), "nothing is left in it"
    [copy] = re.findall(r"a copy of what was learned is in '(.*)', until you move it", done.err)
    assert len(Skillbook.open(copy)) >= 2
    assert len(server.requests) < 12, "the rest was paid for, and could not be kept"

    moving.folder.unlink()
    moving.away.rename(moving.folder)
    assert here(*learn, "--api-base", server.api_base, "--resume").code == 0
    assert len(Skillbook.open(tmp_path / "books" / "skills.db")) == 20


def test_a_json_file_is_saved_elsewhere(tmp_path: Path, server: ScriptedServer) -> None:
    learn = (
        "learn",
        "log.jsonl",
        "--skillbook",
        "books/skills.json",
        "--lag",
        "0",
        "--no-prove",
        "--model",
        "openai/scripted",
    )
    done = ace(*learn, "--api-base", server.api_base, folder=tmp_path, environ={"TMPDIR": str(tmp_path)})
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "skills.json cannot be saved: [Errno 20] Not a directory" in done.err
    [place] = re.findall(r"a copy of what was learned is in '(.*)', until you move it", done.err)
    assert len(Skillbook.load_from_file(place)) == 3
    assert len(server.requests) < 12, "the rest was paid for, and could not be kept"
    assert "learn into the copy, or move it to 'books/skills.json'" in done.err


def learn_into(skillbook: str, tmp_path: Path, server: ScriptedServer) -> Done:
    learn = ("learn", "log.jsonl", "--skillbook", skillbook, "--no-prove", "--model", "openai/scripted")
    return ace(*learn, "--api-base", server.api_base, folder=tmp_path)


@pytest.mark.parametrize("length", [256, 300])
def test_a_name_that_is_too_long_is_refused_before_the_first_call(
    tmp_path: Path, server: ScriptedServer, length: int
) -> None:
    done = learn_into(f"{'a' * (length - 5)}.json", tmp_path, server)
    assert done.code == 2
    assert "name too long" in done.err.lower() and done.err.count("\n") == 1
    assert server.requests == []


def test_the_longest_name_that_a_file_can_have_is_saved(tmp_path: Path, server: ScriptedServer) -> None:
    path = tmp_path / f"{'a' * 250}.json"
    done = learn_into(path.name, tmp_path, server)
    assert done.code == 0, done.err
    assert len(Skillbook.load_from_file(path)) > 0


def test_a_file_whose_fields_would_be_lost_is_refused_before_the_first_call(
    tmp_path: Path, server: ScriptedServer
) -> None:
    text = '{"skills": {"a-1": {"section": "a", "content": "Theirs."}}, "owner": "another framework"}'
    (tmp_path / "theirs.json").write_text(text, encoding="utf-8")
    done = learn_into("theirs.json", tmp_path, server)
    assert done.code == 2
    assert "theirs.json" in done.err and "owner" in done.err
    assert server.requests == []
    assert (tmp_path / "theirs.json").read_text(encoding="utf-8") == text
