"""Whatever is wrong inside the file of a store, it is told in one sentence; nothing else ends a command."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ace.skill import CaseCheck, InsightSource, SimilarityDecision, SkillCase
from ace.skillbook import SampleKey, Skillbook, SkillbookError
from ace.skillbook.sqlite_file import COLUMNS
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.skillbook.clocks import ticking
from tests.support.command_line import ace

DAMAGES = 250
KEY = SampleKey("run", 1, "sample")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every kind of event, with vectors, notes and answers."""
    path = tmp_path_factory.mktemp("sound") / "skills.db"
    with Skillbook.open(path, clock=ticking()) as book:
        for number in range(4):
            book.add_skill("a", f"Number {number}.", insight_source=InsightSource("t", "q"))
        book.tag_skill("a-00001", "helpful")
        book.update_skill("a-00002", content="Changed.", evidence="Some.")
        book.remove_skill("a-00003", soft=True)
        book.set_embeddings({"a-00001": [0.1, 0.2], "a-00002": [0.3, 0.4]})
        book.set_similarity_decision("a-00001", "a-00002", SimilarityDecision("KEEP", "they differ", "", 0.9))
        book.merge_skills("a-00001", ["a-00004"], content="Merged.")
        other = Skillbook(clock=ticking())
        other.add_skill("b", "Imported.")
        book.import_skills(other)
        batch = UpdateBatch("", [UpdateOperation("ADD", section="b", content="Sampled.")])
        book.apply_update(batch, key=KEY, progress="{}")
        book.rollback(11)
        first, second = (SkillCase.make(f"Question {number}?", CaseCheck("numeric", "4")) for number in (1, 2))
        book.add_skill("c", "With a case.", "c-00007", cases=[first])
        learned = UpdateOperation("UPDATE", skill_id="c-00007", content="Other words.", cases=[second])
        assert not book.apply_update(UpdateBatch("", [learned])).skipped
        book.put_cases("c-00007", [replace(first, expected="four")])
        book.note_results({"c-00007": [replace(second, last_result="failed", last_run_at="now", model="m")]})
        book.remove_cases("c-00007", [first.id])
        assert book.store is not None
        book.store.record_answer("key", "answer", "now", {"model": "m"})
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        for table, columns in COLUMNS.items():  # copies without the constraints that keep some damages out
            database.execute(f"CREATE TABLE copy AS SELECT {columns} FROM {table}")
            database.execute(f"DROP TABLE {table}")
            database.execute(f"ALTER TABLE copy RENAME TO {table}")
    return path


def use_everything(path: Path) -> None:
    with Skillbook.open(path, clock=ticking()) as book:
        assert book.store is not None and book.version is not None
        ids = [skill.id for skill in book.skills(include_invalid=True)]
        book.as_prompt()
        uses: list[Callable[[], object]] = [
            lambda: book.history(),
            lambda: book.as_of(7).dumps(),
            lambda: book.diff(0, 7),
            lambda: [book.blame(id) for id in ids],
            lambda: list(book.store.progress("run")) if book.store else None,
            lambda: list(book.store.recorded_answers()) if book.store else None,
            lambda: book.store.recorded_answer("key") if book.store else None,
            lambda: book.store.rows(ids) if book.store else None,
            lambda: book.store.committed_version(KEY) if book.store else None,
            lambda: book.store.record_answer("key", "other", "now") if book.store else None,
            lambda: book.set_embeddings({id: [0.5, 0.5] for id in ids}),
            lambda: book.add_skill("a", "New."),
            lambda: book.rollback(4),
        ]
        for use in uses:
            with contextlib.suppress(SkillbookError):
                use()
        book.refresh()


def refusal_of(path: Path, damage: str) -> str:
    """Use a damaged store, and return why it was refused, if it was."""
    try:
        use_everything(path)
    except SkillbookError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(damage) from error
    return ""


VALUES = (
    b"",
    b"\xff\x00blob",
    "",
    "text",
    "{",
    "[]",
    "{}",
    "null",
    "17",
    '"x"',
    "[null]",
    '[{"kind": "add"}]',
    '[{"kind": 3}]',
    '[{"kind": "rollback", "version": 99}]',
    '[{"kind": "rollback", "version": "x"}]',
    '[{"kind": "tag", "skill_id": ["a"], "counters": 3, "at": 0}]',
    '[{"kind": "embed", "skills": [[]]}]',
    '[{"kind": "cases", "skills": 3, "at": ""}]',
    '[{"kind": "cases", "skills": {"a-00001": {"put": [{}]}}, "at": ""}]',
    '[{"kind": "cases", "skills": {"a-00001": {"results": [["a", "great", "", ""]]}}, "at": ""}]',
    '[{"kind": "cases", "skills": {"a-00001": {"removed": [3], "more": 1}}, "at": ""}]',
    '[["a-00001", -5]]',
    '[["a-00001", "x"]]',
    "[" * 5000 + "]" * 5000,
    "1" * 4301,
    '{"a": ' + "1" * 4301 + "}",
    "\ud800".encode("utf-8", "surrogatepass"),
    -5,
    0,
    2**62,
    2**63 - 1,
    1.5,
    float("inf"),
    None,
)


def change_a_value(database: sqlite3.Connection, chance: random.Random) -> str:
    table = chance.choice(list(COLUMNS))
    column = chance.choice(COLUMNS[table].split(", "))
    value = chance.choice(VALUES)
    where = chance.choice(["", f"WHERE rowid = (SELECT max(rowid) FROM {table})"])
    database.execute(f"UPDATE {table} SET {column} = ? {where}", (value,))
    return f"{table}.{column} = {value!r:.40} {where}"


def change_some_bytes(database: sqlite3.Connection, chance: random.Random) -> str:
    table, column = chance.choice(
        [
            ("skill", "data"),
            ("event", "operations"),
            ("event", "skipped"),
            ("decision", "data"),
            ("vector_block", "layout"),
            ("vector_block", "vectors"),
        ]
    )
    rowid, value = chance.choice(database.execute(f"SELECT rowid, {column} FROM {table}").fetchall())
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    place = chance.randrange(len(text))
    length = chance.choice([0, 1, 1, 5, len(text)])
    new = chance.choice(["", "x", "1", '"', "{", "]", ",", "null", "-1", "\x00"])
    changed = text[:place] + new + text[place + length :]
    kept = changed.encode("latin-1") if isinstance(value, bytes) else changed
    database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (kept, rowid))
    return f"{table}.{column}[{place}:{place + length}] = {new!r}"


def change_the_rows(database: sqlite3.Connection, chance: random.Random) -> str:
    table = chance.choice(list(COLUMNS))
    columns = COLUMNS[table]
    statement = chance.choice(
        [
            f"DELETE FROM {table}",
            f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})",
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE {table} RENAME COLUMN {columns.split(', ')[-1]} TO renamed",
        ]
    )
    database.execute(statement)
    return statement


def test_any_damage_is_told_in_one_sentence(sound: Path, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    refused = 0
    for number in range(DAMAGES):
        path = tmp_path / f"{number}.db"
        shutil.copyfile(sound, path)
        change = chance.choice([change_a_value, change_a_value, change_some_bytes, change_the_rows])
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            damage = change(database, chance)
        refusal = refusal_of(path, damage)
        refused += bool(refusal)
        assert "\n" not in refusal and len(refusal) < 500, damage
        path.unlink()
    assert DAMAGES / 10 < refused < DAMAGES


def test_bytes_that_change_anywhere_in_the_file_are_told_in_one_sentence(sound: Path, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    data = sound.read_bytes()
    for number in range(DAMAGES):
        path = tmp_path / f"{number}.db"
        start, length = chance.randrange(len(data)), chance.choice([1, 4, 100, len(data)])
        noise = chance.randbytes(min(length, len(data) - start)) if chance.random() < 0.8 else b""
        path.write_bytes(data[:start] + noise + data[start + length :])
        assert "\n" not in refusal_of(path, f"{length} bytes at {start}: {noise[:40]!r}")
        for file in tmp_path.glob(f"{number}.db*"):
            file.unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE skill SET data = x'ff00'", "skill.data"),
        ("DELETE FROM head", "head"),
        ("INSERT INTO head SELECT * FROM head", "head"),
        ("UPDATE head SET version = 'five'", "head.version"),
        ("UPDATE head SET version = -5", "head.version"),
        ("DROP TABLE event", "no such table: event"),
        ("ALTER TABLE event RENAME COLUMN at TO moment", "no such column: at"),
        ("UPDATE skill SET data = '[' || data || ']'", "a-00001"),
        ("UPDATE vector_block SET vectors = x''", "vector"),
    ],
)
def test_damage_that_matters_is_refused_when_the_store_is_opened(
    sound: Path, tmp_path: Path, damage: str, message: str
) -> None:
    path = tmp_path / "skills.db"
    shutil.copyfile(sound, path)
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(damage)
    before = path.read_bytes()
    with pytest.raises(SkillbookError, match=rf"skills\.db.*{message}"):
        Skillbook.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", ["show", "log", "blame a-00001", "rollback 1 --yes", "diff 1", "export out.md"])
def test_commands_tell_of_damage_in_one_sentence(sound: Path, tmp_path: Path, command: str) -> None:
    damages = ("UPDATE event SET operations = x'00' WHERE version < 4", "UPDATE head SET version = 'x'")
    for damage in damages:
        shutil.copyfile(sound, tmp_path / "skills.db")
        with contextlib.closing(sqlite3.connect(tmp_path / "skills.db")) as database, database:
            database.execute(damage)
        done = ace("skillbook", *command.split(), folder=tmp_path)
        if done.code == 0:
            assert command in ("show", "export out.md") and damage == damages[0]
        else:
            assert done.err.count("\n") == 1 and "skills.db" in done.err, done.err
