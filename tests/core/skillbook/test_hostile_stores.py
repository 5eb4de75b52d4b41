"""A store from a stranger runs no code of its own, and does not keep us busy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ace import Skillbook
from ace.skillbook import SkillbookFileError
from tests.support.command_line import Run

ENDLESS = "WITH RECURSIVE n(id, position, data) AS (SELECT 'a', 0, '{}' UNION ALL SELECT id, position + 1, data FROM n)"
HOSTILE = {
    "trigger": "CREATE TRIGGER t AFTER INSERT ON skill BEGIN UPDATE skill SET data = replace(data, 'One', 'EVIL'); END",
    "view": f"DROP TABLE skill; CREATE VIEW skill AS {ENDLESS} SELECT * FROM n",
    "further view": f"CREATE VIEW other AS {ENDLESS} SELECT * FROM n",
    "virtual table": "CREATE VIRTUAL TABLE v USING fts5(a)",
    "old format": "PRAGMA user_version = 3; CREATE TRIGGER t AFTER INSERT ON skill BEGIN DELETE FROM event; END",
}


def hostile(folder: Path, kind: str) -> Path:
    path = folder / "skills.db"
    with Skillbook.open(path) as book:
        book.add_skill("a", "One.")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(HOSTILE[kind])
    return path


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_store_with_code_is_refused(tmp_path: Path, kind: str) -> None:
    path = hostile(tmp_path, kind)
    before = path.read_bytes()
    with pytest.raises(SkillbookFileError, match=r"which no skillbook has and which could run code"):
        Skillbook.open(path)
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} <= {"skills.db", "skills.db-wal", "skills.db-shm"}


@pytest.mark.parametrize("kind", ["trigger", "view"])
@pytest.mark.parametrize("command", [["show"], ["add", "a", "Two."], ["import", "more.json"], ["blame", "a-00001"]])
def test_commands_refuse_it_with_a_sentence(tmp_path: Path, here: Run, kind: str, command: list[str]) -> None:
    hostile(tmp_path, kind)
    Skillbook().save_to_file(tmp_path / "more.json")
    done = here("skillbook", *command)
    assert done.code == 2 and "export its skills as JSON where it comes from" in done.err
    assert done.err.count("\n") == 1


def test_importing_from_it_is_refused(tmp_path: Path, here: Run) -> None:
    hostile(tmp_path, "view").rename(tmp_path / "theirs.db")
    done = here("skillbook", "import", "theirs.db", "--skillbook", "mine.db")
    assert done.code == 2 and "could run code" in done.err


def test_a_row_of_hundreds_of_megabytes_is_not_read(tmp_path: Path, here: Run) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book:
        book.add_skill("a", "One.")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE skill SET data = CAST(zeroblob(300000000) AS TEXT)")
    for command in (["show"], ["add", "a", "Two."]):
        done = here("skillbook", *command)
        assert done.code == 2 and "skills.db" in done.err and done.err.count("\n") == 1
        assert "one of its rows has more than 256 MB" in done.err and "export its skills as JSON" in done.err
