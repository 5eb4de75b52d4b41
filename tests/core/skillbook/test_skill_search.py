"""`SkillSearch` answers from the file that it keeps beside the store, unless the store is another one by then."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ace.retrieval import MeaningRanker
from ace.skillbook import Skillbook, SkillbookError, SkillSearch

QUESTION = "When are the tides in Brest?"
TIDES = "tides-00003"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book:
        book.add_skill("habits", "Answer in one sentence.")
        book.add_skill("builds", "Run the tests before a commit.")
        book.add_skill("tides", "Tides are written with an h, such as 14h30.")
    found(path)
    return path


def found(path: Path) -> list[str]:
    """Return what a search finds, which must be what the ranker finds in the whole skillbook."""
    with closing(SkillSearch(path)) as search:
        ids = [skill.id for skill in search.best(QUESTION, 5)]
        pinned = [skill.id for skill in search.pinned()]
    with Skillbook.open(path) as book:
        unpinned = [skill for skill in book.skills() if not skill.pinned]
        assert ids == [skill.id for skill in MeaningRanker().best(QUESTION, unpinned, 5)]
        assert pinned == [skill.id for skill in book.skills() if skill.pinned]
    return ids


def change(action: Callable[[Skillbook], object]) -> Callable[[Path], None]:
    def changed(path: Path) -> None:
        with Skillbook.open(path) as book:
            action(book)

    return changed


def edit_the_row(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE skill SET data = replace(data, 'Tides are', 'Prices are') WHERE id = ?", (TIDES,))


def restore_another_of_the_same_version(path: Path) -> None:
    other = path.with_name("other.db")
    with Skillbook.open(other) as book:
        for section in ("habits", "builds", "tides"):
            book.add_skill(section, "Prices are written with a comma.")
    shutil.move(other, path)


def test_a_search_of_an_unchanged_store_does_not_write(path: Path) -> None:
    kept = path.with_name("skills.db.search")
    before = kept.stat().st_mtime_ns
    assert found(path) == [TIDES]
    assert kept.stat().st_mtime_ns == before and kept.stat().st_mode & 0o077 == 0


def test_the_file_contains_no_text(path: Path) -> None:
    data = path.with_name("skills.db.search").read_bytes()
    assert b"written" not in data and b"14h30" not in data and b"tides-00003" in data


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        (change(lambda book: book.update_skill(TIDES, content="Prices are written with a comma.")), []),
        (change(lambda book: book.remove_skill(TIDES)), []),
        (change(lambda book: book.update_skill(TIDES, pinned=True)), []),
        (change(lambda book: book.add_skill("tides", "The tides in Brest are in a table.")), ["tides-00004", TIDES]),
        (change(lambda book: book.tag_skill(TIDES, "helpful")), [TIDES]),
        (edit_the_row, []),
        (restore_another_of_the_same_version, []),
    ],
    ids=["edited", "removed", "pinned", "added", "tagged", "edited with SQL", "replaced"],
)
def test_a_change_is_noticed(path: Path, changed: Callable[[Path], None], wanted: list[str]) -> None:
    assert found(path) == [TIDES]
    changed(path)
    assert found(path) == wanted


def test_a_change_that_another_process_has_not_closed_is_noticed(path: Path) -> None:
    with Skillbook.open(path) as book:
        book.remove_skill(TIDES)
        assert found(path) == []


@pytest.mark.parametrize("damage", [b"", b"[]\n", b"not an index", None])
def test_a_damaged_file_is_rebuilt(path: Path, damage: bytes | None) -> None:
    kept = path.with_name("skills.db.search")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-9] if damage is None else damage)
    assert found(path) == [TIDES]
    assert kept.read_bytes()[-200:] == whole[-200:]


def test_without_room_for_the_file_the_search_answers_and_says_so(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = path.with_name("skills.db.search")
    kept.unlink()
    kept.mkdir()
    assert found(path) == [TIDES]
    assert "skills.db.search cannot be written" in caplog.text


def test_a_store_that_cannot_be_read_raises(path: Path) -> None:
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(SkillbookError):
        SkillSearch(path)
