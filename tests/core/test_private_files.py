"""New files that hold questions, answers or skills are for their owner only; existing ones keep their permissions."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from ace._internal.atomic_file import append_line, replace_file, write_durably
from ace.context import ACEStepContext, SkillbookView
from ace.providers.embedding_cache import CachedEmbedder
from ace.skillbook import Skillbook
from ace.steps import CheckpointStep, ExportSkillbookMarkdownStep, PersistStep, SaveSkillbookStep
from tests.support.command_line import ace


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def filled() -> Skillbook:
    book = Skillbook()
    book.add_skill("a", "One.")
    return book


def run_step(step: Callable[[ACEStepContext], ACEStepContext]) -> None:
    step(ACEStepContext(sample=None, skillbook=SkillbookView(filled()), global_sample_index=1))


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.rglob("*") if file.is_file()}


def add_to_store(path: Path) -> None:
    with Skillbook.open(path) as book:
        book.add_skill("a", "One.")
        assert set(modes(path.parent).values()) == {0o600}, "the log and its index too"


class OneVector:
    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[1.0, 0.0] for _ in texts]


WRITERS: dict[str, Callable[[Path], object]] = {
    "skills.json": lambda path: filled().save_to_file(path),
    "merged.json": lambda path: filled().save_to_file(path, merge=True),
    "skills.db": add_to_store,
    "copied.db": lambda path: filled().save_to_file(path),
    "SKILL.md": lambda path: filled().save_skill_folder(path.parent, name="n", description="d"),
    "latest.json": lambda path: run_step(CheckpointStep(path.parent, filled(), interval=1)),
    "saved.json": lambda path: run_step(SaveSkillbookStep(path, filled(), interval=1)),
    "AGENTS.md": lambda path: run_step(PersistStep(path, filled())),
    "persisted.json": lambda path: run_step(PersistStep(path, filled())),
    "skills.md": lambda path: run_step(ExportSkillbookMarkdownStep(path, filled())),
    "replaced.txt": lambda path: replace_file(path, b"text"),
    "written.txt": lambda path: write_durably(path, b"text"),
    "lines.jsonl": lambda path: append_line(path, "line"),
}

NOT_TWICE = {"copied.db", "skills.json", "persisted.json"}
"""An existing skillbook is not replaced."""


@pytest.mark.parametrize("name", list(WRITERS))
def test_a_new_file_is_for_its_owner_only(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    assert name in modes(tmp_path)
    assert set(modes(tmp_path).values()) == {0o600}


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in NOT_TWICE])
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o600])
def test_an_existing_file_keeps_its_permissions(tmp_path: Path, name: str, mode: int) -> None:
    path = tmp_path / name
    if path.suffix == ".json":
        filled().save_to_file(path)
    else:
        path.touch()
    path.chmod(mode)
    if path.suffix == ".db":
        with Skillbook.open(path) as book:
            book.add_skill("a", "One.")
            assert set(modes(tmp_path).values()) == {mode}
    else:
        WRITERS[name](path)
    assert modes(tmp_path)[name] == mode


def test_the_files_of_commands_are_for_their_owner_only(tmp_path: Path) -> None:
    filled().save_to_file(tmp_path / "skills.db")
    for name in ("out.md", "out.json", "out.txt"):
        assert ace("skillbook", "export", name, "--skillbook", "skills.db", folder=tmp_path).code == 0
    assert set(modes(tmp_path).values()) == {0o600}


def test_the_copy_of_an_older_store_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book:
        book.add_skill("a", "One.")
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE embedding (id TEXT PRIMARY KEY, vector BLOB NOT NULL);"
            "DROP TABLE vector_block; DROP TABLE vector_place; PRAGMA user_version = 3;"
        )
    path.chmod(0o644)
    Skillbook.open(path).close()
    assert modes(tmp_path) == {"skills.db": 0o644, "skills.db.version-3.backup": 0o600}


def test_a_cache_of_vectors_is_for_its_owner_only(tmp_path: Path) -> None:
    CachedEmbedder(OneVector(), path=tmp_path / "vectors.db", model="m").embed(["One."])
    assert set(modes(tmp_path).values()) == {0o600}


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    folder.mkdir()
    secret.write_text("mine", encoding="utf-8")
    for process in range(os.getpid() - 2, os.getpid() + 3):
        (folder / f".skills.json.{process}.tmp").symlink_to(secret)
    write_durably(folder / "skills.json", b"{}")
    assert secret.read_text(encoding="utf-8") == "mine"
    assert json.loads((folder / "skills.json").read_bytes()) == {}
    filled().save_to_file(folder / "other.json")
    assert secret.exists()


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    for name in (".skills.json.123.tmp", ".skills.json.0123456789abcdef.tmp", ".skills.json.notes.tmp", ".other.1.tmp"):
        (tmp_path / name).touch()
    filled().save_to_file(tmp_path / "skills.json")
    assert {file.name for file in tmp_path.iterdir()} == {"skills.json", ".skills.json.notes.tmp", ".other.1.tmp"}


@pytest.mark.parametrize("length", [200, 250, 255])
def test_a_name_as_long_as_the_file_system_takes_can_be_saved(tmp_path: Path, length: int) -> None:
    path = tmp_path / f"{'a' * (length - 5)}.json"
    book = filled()
    book.check_save(path)
    assert list(tmp_path.iterdir()) == []
    book.save_to_file(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", [".json", ".db"])
@pytest.mark.parametrize("place", ["", "made/"])
def test_a_name_that_cannot_be_saved_is_refused_before(tmp_path: Path, ending: str, place: str) -> None:
    path = tmp_path / f"{place}{'a' * 255}{ending}"
    with pytest.raises(OSError, match="too long"):
        filled().check_save(path)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_saved_to_is_refused_before(tmp_path: Path) -> None:
    book, file, folder = filled(), tmp_path / "file", tmp_path / "folder.json"
    file.touch()
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        book.check_save(folder)
    for name in ("skills.json", "deep/skills.json", "skills.db"):
        with pytest.raises(NotADirectoryError):
            book.check_save(file / name)
    for name in ("skills.md", "skills.txt"):
        with pytest.raises(ValueError, match="as_markdown"):
            book.check_save(tmp_path / name)
    with pytest.raises(ValueError, match="no store is installed"):
        book.check_save("acme://team/skills")
    with Skillbook.open(tmp_path / "skills.db") as stored:
        stored.check_save(tmp_path / "skills.db")
    with pytest.raises(FileExistsError):
        book.check_save(tmp_path / "skills.db")
    with pytest.raises(OSError, match=r"/proc/skills\.json"):
        book.check_save("/proc/skills.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.json", "skills.db"]
