"""`install --capture` and `uninstall` are killed before each thing that they change: the next one mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from ace_openclaw.installing import install, uninstall
from ace_openclaw.settings import Settings
from ace_openclaw.workspace import write_skills
from tests.support.killed_changes import killed_before_change

CONFIG = "// mine\n{\n  plugins: {entries: {'other': {enabled: true,},},},\n}\n"

PROGRAM = """
from pathlib import Path
from ace_openclaw.installing import install, uninstall
from ace_openclaw.settings import Settings

state = Path({state!r})
{command}
"""
COMMANDS = {
    "install": "install(state, Settings(workspace=f'{state}/workspace', capture=True))",
    "uninstall": "uninstall(state)",
}


def files_in(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def put_in(state: Path) -> None:
    install(state, Settings(workspace=f"{state}/workspace", capture=True))


def lay_out(state: Path, config: str) -> None:
    (state / "workspace").mkdir(parents=True)
    if config:
        (state / "openclaw.json").write_text(config, encoding="utf-8")


def killed(state: Path, command: str, point: int) -> bool:
    return killed_before_change(point, state, PROGRAM.format(state=str(state), command=COMMANDS[command]))


@pytest.mark.parametrize("config", ["", CONFIG], ids=["no configuration", "a configuration"])
def test_an_installation_that_was_killed_is_mended_by_the_next_one_and_can_be_removed(
    tmp_path: Path, config: str
) -> None:
    point = 0
    while True:
        point += 1
        state = tmp_path / str(point)
        lay_out(state, config)
        before = files_in(state)
        was_killed = killed(state, "install", point)
        uninstall(state)
        assert files_in(state) == before, point
        if not was_killed:
            break
        assert killed(state, "install", point)
        put_in(state)
        put_in(state)
        assert "ace-capture" in (state / "openclaw.json").read_text(encoding="utf-8"), point
        assert (state / "extensions/ace-capture/index.js").exists()
        uninstall(state)
        assert files_in(state) == before, point
    assert point > 10


def test_a_removal_that_was_killed_is_finished_by_the_next_one(tmp_path: Path) -> None:
    point = 0
    while True:
        point += 1
        state = tmp_path / str(point)
        lay_out(state, CONFIG)
        before = files_in(state)
        put_in(state)
        with Skillbook.open(state / "ace/skillbook.db") as book:
            book.add_skill("claws", "Look twice.")
            write_skills(state / "workspace", book)
        was_killed = killed(state, "uninstall", point)
        uninstall(state)
        assert files_in(state) == before, point
        if not was_killed:
            break
    assert point > 10


def test_what_a_later_installation_makes_is_removed_too(tmp_path: Path) -> None:
    before = files_in(tmp_path)
    install(tmp_path, Settings(workspace=f"{tmp_path}/workspace"))
    put_in(tmp_path)
    uninstall(tmp_path)
    assert files_in(tmp_path) == before
