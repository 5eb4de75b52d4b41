"""Saving to JSON files: whole or not at all, and never over what somebody else wrote."""

from __future__ import annotations

import functools
import itertools
import os
import random
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from ace.skillbook import Skillbook, SkillbookChangedError, SkillbookError, SkillbookFileError
from tests.core.skillbook.clocks import run_python, start_python, ticking


def book_with(*contents: str) -> Skillbook:
    book = Skillbook(clock=ticking())
    for content in contents:
        book.add_skill("a", content)
    return book


def contents(path: Path) -> list[str]:
    return [skill.content for skill in Skillbook.load_from_file(path)]


def test_save_and_load(tmp_path: Path) -> None:
    book = book_with('Grüße 🌍 \u2028 \x00 \x7f \\ "')
    book.save_to_file(tmp_path / "deep" / "book.json")
    again = Skillbook.load_from_file(tmp_path / "deep" / "book.json")
    assert again.dumps() == book.dumps()
    assert (tmp_path / "deep" / "book.json").read_bytes() == book.dumps().encode()
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["book.json"]


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    book_with("One.").save_to_file(real)
    real.chmod(0o640)
    link.symlink_to(real)
    book = Skillbook.load_from_file(link)
    book.add_skill("a", "Two.")
    book.save_to_file(link)
    assert link.is_symlink() and contents(real) == ["One.", "Two."]
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_file_that_this_book_never_read_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book_with("Monday.").save_to_file(path)
    book = book_with("Tuesday.")
    for check in (book.save_to_file, book.check_save):
        with pytest.raises(SkillbookChangedError, match=r"book\.json: .*not loaded from.*merge=True.*overwrite=True"):
            check(path)
    assert contents(path) == ["Monday."]
    book.save_to_file(path, merge=True)
    assert contents(path) == ["Monday.", "Tuesday."]
    book.save_to_file(path)  # it is known now


def test_a_file_that_appeared_after_the_book_was_started_there_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book = Skillbook.open(path)
    book_with("Theirs.").save_to_file(path)
    book.add_skill("a", "Mine.")
    with pytest.raises(SkillbookChangedError, match="not loaded from"):
        book.save_to_file(path)
    book.save_to_file(path, merge=True)
    assert contents(path) == ["Theirs.", "Mine."]


def test_overwriting_replaces_a_skillbook_and_nothing_else(tmp_path: Path) -> None:
    path, other = tmp_path / "book.json", tmp_path / "other.json"
    book_with("Monday.").save_to_file(path)
    book = book_with("Tuesday.")
    with pytest.raises(ValueError, match="pass only one of them"):
        book.save_to_file(path, merge=True, overwrite=True)
    book.check_save(path, overwrite=True)
    assert contents(path) == ["Monday."]
    book.save_to_file(path, overwrite=True)
    assert contents(path) == ["Tuesday."]
    book_with("Wednesday.").save_to_file(path, overwrite=True)
    with pytest.raises(SkillbookChangedError):
        book.save_to_file(path)
    book.save_to_file(path, overwrite=True)
    assert contents(path) == ["Tuesday."]
    other.write_text('{"name": "a package"}', encoding="utf-8")
    for use in (book.save_to_file, book.check_save):
        with pytest.raises(SkillbookFileError, match=r"other\.json"):
            use(other, overwrite=True)
    assert other.read_text(encoding="utf-8") == '{"name": "a package"}'


def test_fields_of_another_framework_are_lost_only_by_overwriting(tmp_path: Path) -> None:
    path = tmp_path / "foreign.json"
    text = '{"skills": {"a-00001": {"section": "a", "content": "Theirs."}}, "owner": "them"}'
    path.write_text(text, encoding="utf-8")
    loaded, new = Skillbook.load_from_file(path), book_with("Mine.")
    for book in (loaded, new):
        with pytest.raises(SkillbookError, match="owner"):
            book.save_to_file(path, merge=True)
        with pytest.raises(SkillbookError, match=r"owner|not loaded"):
            book.save_to_file(path)
    assert path.read_text(encoding="utf-8") == text
    loaded.save_to_file(path, overwrite=True)
    loaded.add_skill("a", "Mine.")
    loaded.save_to_file(path)
    assert contents(path) == ["Theirs.", "Mine."]


PATHS = (Path.exists.__code__.co_filename, os.path.realpath.__code__.co_filename)


def loaded_with_a_call_in_between(path: Path, moment: int, call: Callable[[], None]) -> tuple[Skillbook, bool]:
    """Load a book, and make a call at a certain moment of that: before the function that is entered or left then."""
    moments = itertools.count()
    is_called = False

    def watch(frame: FrameType, _: str, function: object) -> None:
        nonlocal is_called
        # Most calls take apart or join the texts of paths; only those of the system can tell one file from another.
        is_about_texts = frame.f_code.co_filename in PATHS and getattr(function, "__module__", None) != "posix"
        if not is_about_texts and next(moments) == moment:
            sys.setprofile(None)
            is_called = True
            call()

    sys.setprofile(watch)
    try:
        book = Skillbook.load_from_file(path)
    finally:
        sys.setprofile(None)
    return book, is_called


@pytest.mark.parametrize("merge", [False, True])
def test_what_others_save_at_any_moment_of_a_load_is_kept(tmp_path: Path, merge: bool) -> None:
    noticed = 0
    for moment in itertools.count():
        path = tmp_path / f"book{moment}.json"
        theirs = book_with("Old.")
        theirs.save_to_file(path)
        os.utime(path, (1, 1))  # as if it had been there for long
        theirs.add_skill("a", "Theirs.")
        save = functools.partial(theirs.save_to_file, path, merge=True)
        mine, is_called = loaded_with_a_call_in_between(path, moment, save)
        if not is_called:
            break
        knows = len(mine) == 2
        mine.add_skill("a", "Mine.")
        if not knows and not merge:
            noticed += 1
            with pytest.raises(SkillbookChangedError):
                mine.save_to_file(path)
            mine.save_to_file(path, merge=True)
        else:
            mine.save_to_file(path, merge=merge)
        assert sorted(contents(path)) == ["Mine.", "Old.", "Theirs."], moment
    assert noticed or merge


def test_a_change_of_the_same_length_within_a_tick_of_the_clock_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book_with("One.").save_to_file(path)
    mine = Skillbook.load_from_file(path)
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"One.", b"Two."))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # what a file system with a coarse clock gives it
    assert (path.stat().st_ino, path.stat().st_size) == (before.st_ino, before.st_size)
    mine.tag_skill("a-00001", "helpful")
    with pytest.raises(SkillbookChangedError):
        mine.save_to_file(path)


def test_a_file_that_somebody_else_changed_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book_with("One.").save_to_file(path)
    mine, theirs = Skillbook.load_from_file(path), Skillbook.load_from_file(path)
    theirs.add_skill("a", "Theirs.")
    theirs.save_to_file(path)
    mine.add_skill("a", "Mine.")
    with pytest.raises(SkillbookChangedError, match=r"book\.json.*merge=True"):
        mine.save_to_file(path)
    assert contents(path) == ["One.", "Theirs."]
    mine.save_to_file(tmp_path / "mine.json")
    assert contents(tmp_path / "mine.json") == ["One.", "Mine."]


def test_a_touched_file_with_the_same_content_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book = book_with("One.")
    book.save_to_file(path)
    copy = path.read_bytes()
    path.unlink()
    path.write_bytes(copy)
    os.utime(path, (1, 1))
    book.add_skill("a", "Two.")
    book.save_to_file(path)
    assert contents(path) == ["One.", "Two."]


def test_merging_makes_my_operations_on_the_newest_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "book.json"
    book_with("One.", "Two.", "Three.").save_to_file(path)
    mine, theirs = Skillbook.load_from_file(path), Skillbook.load_from_file(path)
    theirs.add_skill("a", "Theirs.")
    theirs.tag_skill("a-00001", "helpful", 2)
    theirs.remove_skill("a-00002")
    theirs.save_to_file(path, merge=True)
    added = mine.add_skill("a", "Mine.")
    mine.tag_skill(added.id, "harmful")
    mine.tag_skill("a-00001", "helpful", 3)
    mine.update_skill("a-00002", content="Changed.")
    mine.remove_skill("a-00003")
    mine.save_to_file(path, merge=True)
    assert [(skill.id, skill.content, skill.helpful, skill.harmful) for skill in Skillbook.load_from_file(path)] == [
        ("a-00001", "One.", 5, 0),
        ("a-00004", "Theirs.", 0, 0),
        ("a-00005", "Mine.", 0, 1),
    ]
    assert "a-00002" in caplog.text
    assert mine.dumps().encode() == path.read_bytes()
    mine.add_skill("a", "Later.")
    mine.save_to_file(path)
    assert len(contents(path)) == 4


def test_merged_adds_of_different_sections_share_one_counter(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    books = [Skillbook.open(path), Skillbook.open(path)]
    for book, section in zip(books, ("maths", "style"), strict=True):
        book.add_skill(section, "Check.")
        book.save_to_file(path, merge=True)
    assert [skill.id for skill in Skillbook.load_from_file(path)] == ["maths-00001", "style-00002"]


def test_merging_a_new_book_into_a_file_adds_its_skills_once(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book_with("One.").save_to_file(path)
    store_book = Skillbook.open(tmp_path / "book.db", clock=ticking())
    store_book.add_skill("a", "Stored.")
    for _ in range(2):
        store_book.save_to_file(path, merge=True)
        other = Skillbook.load_from_file(path)
        other.tag_skill("a-00001", "helpful")
        other.save_to_file(path)
    assert sorted(contents(path)) == ["One.", "Stored."]
    assert [skill.content for skill in store_book] == ["Stored."]


def test_open_starts_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    first, second = Skillbook.open(path), Skillbook.open(path)
    for book, content in ((first, "One."), (second, "Two.")):
        book.add_skill("a", content)
        book.save_to_file(path, merge=True)
    assert contents(path) == ["One.", "Two."]


def test_links_in_a_circle_are_named(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    path.symlink_to(path)
    for use in (
        lambda: Skillbook.open(path),
        lambda: Skillbook.load_from_file(path),
        lambda: book_with("One.").save_to_file(path),
        lambda: book_with("One.").save_to_file(path, merge=True),
    ):
        with pytest.raises(OSError, match=r"symbolic links: '.*book\.json'"):
            use()
    assert path.is_symlink()


@pytest.mark.parametrize("name", ["skills.json", "skills.db"])
def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path, name: str) -> None:
    place = tmp_path / "notes"
    place.write_text("mine", encoding="utf-8")
    with pytest.raises(NotADirectoryError, match=r"Not a directory: '.*notes'"):
        book_with("One.").save_to_file(place / name)
    assert place.read_text(encoding="utf-8") == "mine"


MERGING = """
import sys
from ace.skillbook import Skillbook
path, name = sys.argv[1:]
book = Skillbook.open(path)
for number in range(25):
    book.add_skill(name, f"{name} {number}")
    book.save_to_file(path, merge=True)
"""


def test_four_processes_that_merge_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    processes = [start_python(MERGING, str(path), f"writer{number}") for number in range(4)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    book = Skillbook.load_from_file(path)
    assert sorted(skill.content for skill in book) == sorted(f"writer{w} {n}" for w in range(4) for n in range(25))
    assert len({skill.id for skill in book}) == 100


SAVING = """
import sys
from ace.skillbook import Skillbook
book = Skillbook.load_from_file(sys.argv[1])
print("ready", flush=True)
for number in range(100_000):
    book.add_skill("a", f"Number {number}: " + "x" * 200)
    book.save_to_file(sys.argv[1])
    print("saved", flush=True)
"""


def test_a_kill_at_any_point_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book_with(*(f"Start {number}: " + "y" * 2000 for number in range(200))).save_to_file(path)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    before = 200
    for _ in range(30):
        process = start_python(SAVING, str(path))
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        saved = chance.randrange(3)
        assert [process.stdout.readline() for _ in range(saved)] == ["saved\n"] * saved
        time.sleep(chance.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        saved += process.stdout.read().count("saved\n")
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        book = Skillbook.load_from_file(path)
        assert before + saved <= len(book) <= before + saved + 1
        before = len(book)
    book = Skillbook.load_from_file(path)
    book.save_to_file(path)
    assert [file.name for file in tmp_path.iterdir()] == ["book.json"]


FULL_DISK = """
import resource, sys
from ace.skillbook import Skillbook
path, limit = sys.argv[1], int(sys.argv[2])
book = Skillbook.open(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    for number in range(2000):
        book.add_skill("a", f"Number {number}: " + "x" * 500)
        if path.endswith(".json"):
            book.save_to_file(path)
except Exception as error:
    print(type(error).__name__, len(book))
"""


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book_with("One.", "Two.").save_to_file(path)
    output = run_python(FULL_DISK, str(path), "20000").split()
    assert output[0] == "OSError"
    book = Skillbook.load_from_file(path)
    assert len(book) == int(output[1]) - 1 > 5
    assert [file.name for file in tmp_path.iterdir()] == ["book.json"]


def test_a_full_disk_leaves_the_old_store(tmp_path: Path) -> None:
    path = tmp_path / "book.db"
    with Skillbook.open(path, clock=ticking()) as book:
        book.add_skill("a", "One.")
    output = run_python(FULL_DISK, str(path), "200000").split()
    assert output[0] == "SkillbookStoreError"
    with Skillbook.open(path) as book:
        assert len(book) == int(output[1]) > 5
        assert book.dumps() == book.as_of(book.version or 0).dumps()


LOADING_AND_MERGING = """
import sys
from ace.skillbook import Skillbook
path, name, saves = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(saves):
    book = Skillbook.load_from_file(path)
    book.add_skill(name, f"{name} {number}")
    book.save_to_file(path, merge=True)
"""


@pytest.mark.parametrize(("skills", "saves", "repetitions"), [(200, 40, 1), pytest.param(3_000, 15, 1)])
def test_two_processes_that_load_add_and_merge_keep_everything(
    tmp_path: Path, skills: int, saves: int, repetitions: int
) -> None:
    for repetition in range(repetitions):
        path = tmp_path / f"book{repetition}.json"
        book_with(*(f"Old {number}." for number in range(skills))).save_to_file(path)
        writers = [start_python(LOADING_AND_MERGING, str(path), name, str(saves)) for name in ("first", "second")]
        for writer in writers:
            _, errors = writer.communicate()
            assert writer.returncode == 0, errors
        found = contents(path)
        assert len(found) == skills + 2 * saves
        assert set(found[skills:]) == {f"{name} {number}" for name in ("first", "second") for number in range(saves)}


@pytest.mark.parametrize("merge", [False, True])
def test_a_file_that_was_deleted_while_it_was_in_use_is_written_again_with_a_warning(
    tmp_path: Path, merge: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "folder" / "book.json"
    book = Skillbook()
    book.add_skill("a", "One.")
    book.save_to_file(path)
    assert not caplog.messages
    path.unlink()
    path.parent.rmdir()
    book.add_skill("a", "Two.")
    book.save_to_file(path, merge=merge)
    assert caplog.messages == [f"{path} was deleted while it was in use; all skills are written to a new file"]
    book.save_to_file(path, merge=merge)
    assert len(caplog.messages) == 1
    assert len(Skillbook.load_from_file(path)) == 2
