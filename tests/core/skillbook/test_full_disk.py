"""Disks that are full or read-only: small file systems of their own, mounted where no other process sees them."""

from __future__ import annotations

from pathlib import Path

from tests.support.small_disk import on_small_disk

FULL = """
book = Skillbook.open(folder / "skills.db")
add(book, "Kept.")
book.save_to_file(folder / "skills.json")
plain = Skillbook.open(folder / "skills.json")
add(plain, "New. " + "x" * 9000)
before = (folder / "skills.json").read_bytes(), book.dumps()
fill()
result = {
    "json": outcome(lambda: plain.save_to_file(folder / "skills.json")),
    "json is the old one": (folder / "skills.json").read_bytes() == before[0],
    "store": outcome(lambda: add(book, "New. " + "x" * 9000)),
    "book is the old one": book.dumps() == before[1],
    "store is the old one": outcome(lambda: Skillbook.open(folder / "skills.db").dumps() == before[1]),
    "new store": outcome(lambda: Skillbook.open(folder / "new.db").version),
    "leftovers": [name for name in os.listdir(folder) if name.endswith(".tmp")],
}
(folder / "filler").unlink()
result["later"] = [add(book, "Later."), outcome(lambda: plain.save_to_file(folder / "skills.json"))]
result["reopened"] = Skillbook.open(folder / "skills.db").dumps() == book.dumps()
result["contents"] = [len(Skillbook.open(folder / name)) for name in ("skills.db", "skills.json", "new.db")]
print(json.dumps(result))
"""


def test_a_full_disk_leaves_what_was_there_and_can_be_gone_on_from(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    result = on_small_disk(folder, FULL)
    assert result.pop("json") == f"OSError: [Errno 28] No space left on device: '{folder}/skills.json'"
    assert result.pop("store").startswith(
        f"SkillbookStoreError: the store {folder}/skills.db could not write the change"
    )
    assert result.pop("new store").startswith(f"SkillbookFileError: {folder}/new.db: the store cannot be opened")
    assert result == {
        "json is the old one": True,
        "book is the old one": True,
        "store is the old one": True,
        "leftovers": [],
        "later": ["a-00002", None],
        "reopened": True,
        "contents": [2, 2, 0],
    }


MIGRATION = """
import sqlite3
from ace.skillbook.sqlite_file import MIGRATIONS, bring_up_to_date
path = folder / "skills.db"
connection = sqlite3.connect(path, isolation_level=None)
bring_up_to_date(connection, path, MIGRATIONS[:3])
for place in range(100):
    id = f"a-{place + 1:05d}"
    data = json.dumps({"id": id, "section": "a", "content": f"Text {place}. " + "x" * 4000})
    connection.execute("INSERT INTO skill VALUES (?, ?, ?)", (id, place, data))
connection.execute("UPDATE head SET version = 1, next_id = 101, id_floor = 101, next_position = 100")
connection.close()
old = path.read_bytes()
with (folder / "half").open("wb") as file:
    file.write(bytes(len(old) // 2))
fill()
(folder / "half").unlink()
result = {"first": outcome(lambda: len(Skillbook.open(path))), "untouched": path.read_bytes() == old}
(folder / "filler").unlink()
result["second"] = outcome(lambda: len(Skillbook.open(path)))
backup = sqlite3.connect(folder / "skills.db.version-3.backup")
result["backup"] = backup.execute("SELECT count(*) FROM skill").fetchone()[0]
print(json.dumps(result))
"""


def test_an_older_store_is_not_migrated_without_a_whole_backup(tmp_path: Path) -> None:
    result = on_small_disk(tmp_path / "disk", MIGRATION)
    assert "must be upgraded, but the backup failed" in result.pop("first")
    assert result == {"untouched": True, "second": 100, "backup": 100}


READ_ONLY = """
import shutil, sqlite3, subprocess
from ace.skillbook.sqlite_file import MIGRATIONS, bring_up_to_date
with Skillbook.open(folder / "skills.db") as book:
    add(book, "Kept.")
    book.save_to_file(folder / "skills.json")
(folder / "logged").mkdir()
with Skillbook.open(folder / "skills.db") as book:
    book.rollback(1)
    add(book, "In the log.")
    for name in ("skills.db", "skills.db-wal"):
        shutil.copy(folder / name, folder / "logged")
    book.rollback(1)
(folder / "link.db").symlink_to(folder / "logged" / "skills.db")
connection = sqlite3.connect(folder / "older.db", isolation_level=None)
bring_up_to_date(connection, folder / "older.db", MIGRATIONS[:3])
connection.close()
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
book = Skillbook.open(folder / "skills.db")
plain = Skillbook.open(folder / "skills.json")
add(plain, "New.")
print(json.dumps({
    "read": [len(book), book.version, len(book.history()), len(book.as_of(1)), len(plain)],
    "store": outcome(lambda: add(book, "New.")),
    "book": len(book),
    "json": outcome(lambda: plain.save_to_file(folder / "skills.json")),
    "new": outcome(lambda: Skillbook.open(folder / "new.db")),
    "older": outcome(lambda: Skillbook.open(folder / "older.db")),
    "logged": [outcome(lambda: len(Skillbook.open(folder / name))) for name in ("logged/skills.db", "link.db")],
}))
"""


def test_a_read_only_disk_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    result = on_small_disk(folder, READ_ONLY)
    assert result.pop("store").startswith(
        f"SkillbookStoreError: the store {folder}/skills.db could not write the change"
    )
    assert result.pop("json") == f"OSError: [Errno 30] Read-only file system: '{folder}/skills.json'"
    assert result.pop("new").startswith(f"SkillbookFileError: {folder}/new.db: the store cannot be opened")
    assert result.pop("older").startswith(
        f"SkillbookFileError: {folder}/older.db: the store was written by an older version of ace"
    )
    for told in result.pop("logged"):
        assert "cannot be opened" in str(told), "the log was passed over"
    assert result == {"read": [1, 4, 4, 1, 2], "book": 1}
