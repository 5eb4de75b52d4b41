"""The timeline has the same histories and states as the store, without replaying it for each question."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from ace import Skillbook
from ace.skill import Skill
from ace.skillbook import BookSizes, SkillbookFileError, SkillTimeline
from ace.updates import UpdateBatch, UpdateOperation


def bare(skills: list[Skill]) -> list[Skill]:
    return [skill.replace(embedding=None) for skill in skills]


def change_at_random(book: Skillbook, chance: random.Random) -> None:
    ids = [skill.id for skill in book.skills()]
    match chance.randrange(8) if len(ids) > 2 else 0:
        case 0 | 1:
            book.add_skill(chance.choice(["maths", "geography"]), f"Rule {chance.random()}.")
        case 2:
            book.tag_skill(chance.choice(ids), chance.choice(["helpful", "harmful"]))
        case 3:
            book.update_skill(chance.choice(ids), content=f"Better {chance.random()}.", section="moved")
        case 4:
            book.remove_skill(chance.choice(ids), soft=chance.random() < 0.5)
        case 5:
            keep, merged = chance.sample(ids, 2)
            book.merge_skills(keep, [merged])
        case 6:
            book.set_embeddings({chance.choice(ids): [chance.random()] * 4})
        case _:
            assert book.version is not None
            book.rollback(chance.randrange(book.version + 1), author="undo")


@pytest.mark.parametrize("seed", range(4))
def test_every_version_and_every_change_is_that_of_the_history(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert book.store is not None
        timeline, counted = SkillTimeline(book.store), BookSizes(book.store)
        for step in range(60):
            change_at_random(book, chance)
            if step % 7 == 0:
                timeline.read_new()
                counted.read_new()
        timeline.read_new()
        assert timeline.version == book.version
        assert [entry.version for entry in timeline.entries] == [entry.version for entry in book.history()]
        for version in range(timeline.version + 1):
            expected = book.as_of(version)
            assert bare(timeline.skills_at(version, include_invalid=True)) == bare(
                expected.skills(include_invalid=True)
            )
            assert [skill.id for skill in timeline.skills_at(version)] == [skill.id for skill in expected.skills()]
        sizes = {size.version: size.active for size in timeline.sizes}
        assert sizes == {version: len(book.as_of(version)) for version in sizes}
        assert list(counted.read_new()) == list(BookSizes(book.store).read_new()) == list(timeline.sizes)
        for skill_id in {
            change.skill_id for entry in timeline.entries for change in timeline.changes_of(entry.version)
        }:
            blamed = [entry.version for entry in book.blame(skill_id)]
            found = [change.version for change in timeline.changes(skill_id)]
            # A rollback may give a skill another place; the blame of the book does not count that.
            assert [version for version in found if version in blamed] == blamed
            for change in timeline.changes(skill_id):
                assert change.before == timeline.skill_at(skill_id, change.version - 1)


def test_a_change_names_its_sample_and_what_was_before(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert book.store is not None
        skill = book.add_skill("maths", "Check the units.")
        book.apply_update(
            UpdateBatch(operations=[UpdateOperation(type="UPDATE", skill_id=skill.id, content="Check all units.")])
        )
        timeline = SkillTimeline(book.store)
        timeline.read_new()
        added, updated = timeline.changes(skill.id)
        assert (added.before, added.after) == (None, skill)
        assert updated.before == skill
        assert updated.after is not None
        assert updated.after.content == "Check all units."
        assert timeline.changes("no-00001") == ()
        assert timeline.entry(99) is None
        assert timeline.read_new() == 0


def test_a_damaged_history_is_an_error_and_what_was_read_stays(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        skill = book.add_skill("maths", "Check the units.")
        book.tag_skill(skill.id, "helpful")
        book.tag_skill(skill.id, "helpful")
    with sqlite3.connect(tmp_path / "skills.db") as connection:
        connection.execute(
            "UPDATE event SET operations = replace(operations, ?, 'gone-00001') WHERE version = 2", (skill.id,)
        )
    connection.close()
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert book.store is not None
        timeline = SkillTimeline(book.store)
        for _ in range(2):
            with pytest.raises(SkillbookFileError, match=r"version 2 of the history: it is inconsistent"):
                timeline.read_new()
        assert timeline.version == 1
        assert [change.version for change in timeline.changes(skill.id)] == [1]


def test_what_looks_like_an_event_in_a_text_is_not_counted_and_damage_is_an_error(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        skill = book.add_skill("maths", 'Write "kind":"remove" and "kind":"embed".')
        book.update_skill(skill.id, content='[{"kind":"rollback","version":0}]')
        assert book.store is not None
        assert [size.active for size in BookSizes(book.store).read_new()] == [1, 1]
    with sqlite3.connect(tmp_path / "skills.db") as connection:
        connection.execute("UPDATE event SET operations = substr(operations, 1, 20) WHERE version = 1")
    connection.close()
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert book.store is not None
        with pytest.raises(SkillbookFileError, match="version 1 of the history"):
            BookSizes(book.store).read_new()
