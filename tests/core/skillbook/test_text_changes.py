"""Which skills say something else than at an earlier moment."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ace.context import SkillbookView
from ace.skillbook import BookMark, Skillbook

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "update", "move", "tag", "remove", "hide", "merge", "import"]),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=25,
)


def said(book: Skillbook) -> dict[str, tuple[str, str]]:
    return {skill.id: (skill.section, skill.content) for skill in book.skills()}


def differences(before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]]) -> set[str]:
    return {id for id in before.keys() | after.keys() if before.get(id) != after.get(id)}


def take(book: Skillbook, step: tuple[str, int, int]) -> None:
    kind, first, second = step
    skills = book.skills()
    if kind == "add" or not skills:
        book.add_skill("a", f"Text {first}.")
        return
    skill, other = skills[first % len(skills)], skills[second % len(skills)]
    if kind == "update":
        book.update_skill(skill.id, content=f"Text {second}.")
    elif kind == "move":
        book.update_skill(skill.id, section=f"s{second}")
    elif kind == "tag":
        book.tag_skill(skill.id, "helpful")
    elif kind in ("remove", "hide"):
        book.remove_skill(skill.id, soft=kind == "hide")
    elif kind == "merge" and skill is not other:
        book.merge_skills(skill.id, [other.id], content=f"Text {second}." if second % 2 else None)
    elif kind == "import":
        book.import_skills(Skillbook.from_text(f"- Text {first}.\n"))


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, marked_at=st.integers(0, 24))
def test_every_skill_that_says_something_else_is_among_those_that_have_changed(
    steps: list[tuple[str, int, int]], marked_at: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for book in (Skillbook(), Skillbook.open(Path(folder) / "s.db")):
            with book:
                before, mark = said(book), SkillbookView(book).mark()
                for number, step in enumerate(steps):
                    if number == marked_at:
                        before, mark = said(book), book.mark()
                    take(book, step)
                changed = SkillbookView(book).changed_since(mark)
                assert changed is not None
                assert changed >= differences(before, said(book))
                if mark.version is not None:
                    by_version = book.changed_since(BookMark(mark.version))
                    assert by_version is not None
                    assert by_version >= differences(before, said(book))


def test_counters_cases_and_texts_that_stay_are_no_change(tmp_path: Path) -> None:
    for book in (Skillbook(), Skillbook.open(tmp_path / "s.db")):
        skill = book.add_skill("maths", "Check the units.")
        mark = book.mark()
        book.tag_skill(skill.id, "helpful")
        book.update_skill(skill.id, justification="It was wrong.")
        assert book.changed_since(mark) == frozenset()
        if mark.version is not None:
            assert book.changed_since(BookMark(mark.version)) == frozenset()
        book.update_skill(skill.id, content="Check the unit.")
        assert book.changed_since(mark) == frozenset({skill.id})


def test_what_another_process_has_committed_counts(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "s.db") as book, Skillbook.open(tmp_path / "s.db") as other:
        mark = book.mark()
        skill = other.add_skill("maths", "Check the units.")
        assert book.changed_since(mark) == frozenset()
        book.refresh()
        assert book.changed_since(mark) == frozenset({skill.id})


def test_it_is_not_known_after_a_rollback_or_too_many_changes(tmp_path: Path) -> None:
    with Skillbook.open(tmp_path / "s.db") as book:
        book.add_skill("maths", "Check the units.")
        mark = book.mark()
        book.add_skill("maths", "Check the sign.")
        book.rollback(1)
        assert book.changed_since(mark) is None
        assert book.changed_since(BookMark(1)) is None
    memory = Skillbook()
    mark = memory.mark()
    skill = memory.add_skill("maths", "Text")
    for number in range(5000):
        memory.update_skill(skill.id, content=f"Text {number}")
    assert memory.changed_since(mark) is None
    assert memory.changed_since(memory.mark()) == frozenset()
    assert memory.changed_since(BookMark(None)) is None
