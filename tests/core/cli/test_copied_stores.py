"""Commands that change nothing read a copy of the skillbook, which is whole even while another process writes."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from ace.cli.skillbooks.opened_book import SkillbookPlace, opened_skillbook
from ace.skillbook import Skillbook

SKILLS = 2000
COPIES = 40

WRITES = """
import sys
from ace.skillbook.sqlite_store import SqliteStore
from ace.skillbook.store import SampleKey

number = 0
while True:
    number += 1
    store = SqliteStore(sys.argv[1])
    store.note_progress(SampleKey("run", 1, str(number)), "x" * 5000, "2026")
    store.close()  # the last one to close a store moves the log into its file, and removes it
    print(number, flush=True)
"""


def test_a_copy_is_whole_while_another_process_opens_writes_and_closes_the_store(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book, book.deferred_commits():
        for number in range(SKILLS):
            book.add_skill("a", f"skill {number} {'x' * 1500}")  # so large that a copy takes some time
    writer = subprocess.Popen([sys.executable, "-c", WRITES, str(path)], stdout=subprocess.PIPE)
    found: list[tuple[str, int]] = []
    written: set[int] = set()
    try:
        assert writer.stdout is not None and writer.stdout.readline() == b"1\n"
        while len(found) < COPIES or len(written) < 2:  # until the writer has written meanwhile
            with opened_skillbook(SkillbookPlace(str(path)), is_dry_run=True) as (book, place):
                assert place.file is not None
                with closing(sqlite3.connect(place.file)) as copy:
                    found.append((copy.execute("PRAGMA integrity_check").fetchone()[0], len(book)))
                    written.add(copy.execute("SELECT count(*) FROM progress").fetchone()[0])
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()
    assert set(found) == {("ok", SKILLS)}
