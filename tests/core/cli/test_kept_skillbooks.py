"""`ace review` with the skillbooks that plugins keep for a project (the hook `ace_skillbooks`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ace.plugins import KeptSkillbook, SkillbooksSpec, hookimpl, kept_skillbooks, temporary
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.command_line import Run

FIRST, SECOND = "sums-00001", "sums-00002"


def publish(folder: Path) -> list[Path]:
    if (folder / "refuse").exists():
        raise OSError("the disk is full")
    with Skillbook.open(folder / "kept.db") as book:
        (folder / "published.txt").write_text("\n".join(skill.content for skill in book), encoding="utf-8")
    return [folder / "published.txt"]


def skillbooks_of(folder: Path) -> Iterator[KeptSkillbook]:
    if (folder / "kept.db").exists():
        yield KeptSkillbook(str(folder / "kept.db"), "kept by acme", lambda: publish(folder))


class Hooks:
    ACE_API = 1

    @hookimpl
    def ace_skillbooks(self) -> Iterator[SkillbooksSpec]:
        yield SkillbooksSpec(name="acme", target=f"{__name__}:skillbooks_of")


def pending(path: Path, *contents: str) -> None:
    with Skillbook.open(path) as book:
        adds = [UpdateOperation("ADD", "sums", text, evidence=f"seen: {text}", pending="why") for text in contents]
        book.apply_update(UpdateBatch("", adds))


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path) -> Iterator[None]:
    pending(tmp_path / "kept.db", "Add twice.", "Add slowly.")
    with temporary(Hooks(), name="acme"):
        yield


def test_the_books_of_plugins_are_found_by_their_folder(tmp_path: Path) -> None:
    assert [book.title for book in kept_skillbooks(tmp_path)] == ["kept by acme"]
    assert kept_skillbooks(tmp_path.parent) == []


def test_what_is_pending_in_a_kept_book_is_listed_with_its_evidence(tmp_path: Path, here: Run) -> None:
    done = here("review")
    assert done.code == 0, done.err
    assert f"2 pending skills in {tmp_path / 'kept.db'}: kept by acme" in done.out
    assert f"[{FIRST}] evidence:\n  seen: Add twice.\n" in done.out


def test_own_and_kept_books_are_listed_together(tmp_path: Path, here: Run) -> None:
    pending(tmp_path / "skills.db", "Name the unit.")
    found = here("review", "--json").data
    assert found["skillbook"] == "skills.db"
    assert [(skill["content"], Path(skill["skillbook"]).name) for skill in found["pending"]] == [
        ("Name the unit.", "skills.db"),
        ("Add twice.", "kept.db"),
        ("Add slowly.", "kept.db"),
    ]


def test_an_accepted_skill_is_published(tmp_path: Path, here: Run) -> None:
    done = here("review", "--accept", FIRST, "--reject", SECOND, "--because", "no")
    assert done.code == 0, done.err
    assert (tmp_path / "published.txt").read_text("utf-8") == "Add twice."
    assert f"written: {tmp_path / 'published.txt'}" in done.err


def test_a_kept_book_that_is_named_is_published_too(tmp_path: Path, here: Run) -> None:
    assert here("review", tmp_path / "kept.db", "--accept", SECOND).code == 0
    assert (tmp_path / "published.txt").read_text("utf-8") == "Add slowly."


def test_the_same_id_in_two_books_is_asked_about(tmp_path: Path, here: Run) -> None:
    pending(tmp_path / "skills.db", "Name the unit.")
    done = here("review", "--accept", FIRST)
    assert done.code == 2
    assert f"name one of them: skills.db or {tmp_path / 'kept.db'}" in done.err
    assert here("review", "--accept", SECOND).code == 0


def test_a_decision_that_cannot_be_published_is_saved(tmp_path: Path, here: Run) -> None:
    (tmp_path / "refuse").touch()
    done = here("review", "--accept", FIRST)
    assert (done.code, "the decision is saved" in done.err, "the disk is full" in done.err) == (1, True, True)
    assert [skill["id"] for skill in here("review", "--json").data["pending"]] == [SECOND]
