"""Skill folders after the Agent Skills specification, as the validator of the specification sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skills_ref.parser import parse_frontmatter, read_properties
from skills_ref.validator import validate

from ace.skill import CaseCheck, InsightSource, SkillCase
from ace.skillbook import Skillbook
from ace.skillbook.skill_folders import write_skill_folders
from ace.updates import UpdateBatch, UpdateOperation

QUESTION = "How long is the pier, in metres?"


def written(book: Skillbook, folder: Path) -> list[Path]:
    return write_skill_folders(folder, book.skills(include_invalid=True))


def body_of(file: Path) -> str:
    _, body = parse_frontmatter(file.read_text(encoding="utf-8"))
    return str(body)


def read_back(files: list[Path]) -> list[tuple[str, str, str, int, int]]:
    """The skills in files, as `ace skillbook import` reads them."""
    books = [Skillbook.from_text(body_of(file)) for file in files]
    return sorted(fields for book in books for fields in fields_of(book))


def fields_of(book: Skillbook) -> list[tuple[str, str, str, int, int]]:
    return sorted((skill.id, skill.section, skill.content, skill.helpful, skill.harmful) for skill in book.skills())


@pytest.fixture
def book() -> Skillbook:
    book = Skillbook()
    case = SkillCase.make(QUESTION, CaseCheck("contains", "12 m"), evidence="person")
    source = InsightSource("t1", "Which <b>unit</b> has\nthe pier --- feet?", evidence="person")
    book.add_skill("Pier lengths", "Name the unit.", cases=[case], insight_source=source)
    book.add_skill("Release", "To release:\n- run `make check`\n\n  # only then\n- tag", metadata={"helpful": 2})
    return book


def test_each_section_is_a_skill_that_the_specification_accepts(book: Skillbook, tmp_path: Path) -> None:
    files = written(book, tmp_path / "skills")
    assert [file.parent.name for file in files] == ["pier-lengths", "release"]
    assert [validate(file.parent) for file in files] == [[], []]
    properties = read_properties(files[0].parent)
    assert properties.name == "pier-lengths"
    assert properties.description == (
        "Rules learned in earlier runs about Pier lengths. Use for tasks such as: "
        f'"{QUESTION}"; "Which b unit /b has the pier - feet?"'
    )
    assert properties.metadata == {
        "written-by": "ace",
        "learned-from": "1 run",
        "evidence": "person",
        "proof": "1 unproven",
    }
    assert "run `make check`" in read_properties(files[1].parent).description


def test_what_was_exported_is_imported_again(book: Skillbook, tmp_path: Path) -> None:
    assert read_back(written(book, tmp_path)) == fields_of(book)


def test_only_what_agents_may_see_is_exported(tmp_path: Path) -> None:
    book = Skillbook()
    lessons = [
        UpdateOperation("ADD", section="sums", content="Always answer 7.", pending="no one judged it"),
        UpdateOperation("ADD", section="sums", content="Name the unit."),
    ]
    book.apply_update(UpdateBatch("", lessons))
    [file] = written(book, tmp_path)
    assert "answer 7" not in file.read_text(encoding="utf-8")
    book.reject_skill("sums-00002", "It is wrong.")
    assert written(book, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_long_section_is_divided(tmp_path: Path) -> None:
    book = Skillbook()
    for number in range(700):
        book.add_skill("sums", f"Rule {number} has\ntwo lines.")
    book.add_skill("sums-2", "Another section.")
    files = written(book, tmp_path)
    assert [file.parent.name for file in files] == ["sums", "sums-3", "sums-4", "sums-2"]
    assert [validate(file.parent) for file in files] == [[]] * 4
    assert all(len(body_of(file).splitlines()) < 500 for file in files)
    assert read_back(files) == fields_of(book)
    for skill in book.skills()[100:]:
        book.remove_skill(skill.id)
    assert [file.parent.name for file in written(book, tmp_path)] == ["sums"]


def test_a_folder_that_is_a_link_is_left_alone(book: Skillbook, tmp_path: Path) -> None:
    written(book, tmp_path / "elsewhere")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "release").symlink_to(tmp_path / "elsewhere" / "release")
    book.remove_skill("Release-00002", soft=True)
    written(book, tmp_path / "skills")
    assert (tmp_path / "elsewhere" / "release" / "SKILL.md").exists()


SECTIONS = st.text(max_size=80)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None)
@given(
    sections=st.lists(SECTIONS, min_size=1, max_size=4), question=st.text(max_size=1500), content=st.text(min_size=1)
)
def test_any_section_and_question_give_valid_folders(
    tmp_path_factory: pytest.TempPathFactory, sections: list[str], question: str, content: str
) -> None:
    book = Skillbook()
    for section in sections:
        try:
            book.add_skill(section, f"x{content}", insight_source=InsightSource("t", question))
        except ValueError:
            return  # such as lone surrogates
    files = written(book, tmp_path_factory.mktemp("skills"))
    assert [validate(file.parent) for file in files] == [[] for _ in files]
