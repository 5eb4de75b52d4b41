"""Ids from other sources: what could not be cited, or would break the lines of a prompt, gets a new id."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.skill import InsightSource
from ace.skillbook import Skillbook
from tests.support.command_line import ace

ODD_IDS = ["a]-1", "a[-1", "a b-3", "a\n-4", "\x1b[31mred", "a\u202e-5", "\u3000"]


def book_json(*ids: str) -> str:
    skills = {id: {"id": id, "section": "a", "content": f"Rule {number}."} for number, id in enumerate(ids)}
    return json.dumps({"schema_version": 1, "skills": skills, "similarity_decisions": {}})


def foreign_json(*ids: str) -> str:
    bullets = [{"id": id, "section": "a", "content": f"Rule {number}."} for number, id in enumerate(ids)]
    return json.dumps({"bullets": bullets})


@pytest.mark.parametrize("text", [book_json("a-00001", *ODD_IDS), foreign_json("a-00001", *ODD_IDS)])
def test_no_id_breaks_the_lines_of_a_prompt(text: str, caplog: pytest.LogCaptureFixture) -> None:
    book = Skillbook.loads(text)
    assert len(book) == 1 + len(ODD_IDS)
    lines = book.as_prompt().splitlines()
    assert len(lines) == 2 + len(ODD_IDS)
    assert all(line.isprintable() and line.count("[") == line.count("]") == 1 for line in lines[1:])
    assert book.skills()[0].id == "a-00001"
    assert "'a b-3' is now 'a_b-3'" in caplog.text
    assert Skillbook.loads(book.dumps()).dumps() == book.dumps()


def test_what_refers_to_an_id_follows_it() -> None:
    data = json.loads(book_json("a 1", "a 2", "a_1"))
    data["skills"]["a 2"] |= {"status": "invalid", "merged_into": "a 1"}
    data["sections"] = {"a": ["a 1", "a 2", "a_1"]}
    data["similarity_decisions"] = {"a 1,a 2": {"skill_ids": ["a 1", "a 2"], "decision": "KEEP"}}
    book = Skillbook.from_dict(data)
    assert [skill.id for skill in book.skills(include_invalid=True)] == ["a_1_2", "a_2", "a_1"]
    merged = book.get_skill("a_2")
    assert merged is not None and merged.merged_into == "a_1_2"
    assert book.has_keep_decision("a_2", "a_1_2")


@given(st.lists(st.text(min_size=1, max_size=6), unique=True, max_size=8))
def test_any_ids_that_are_imported_can_be_cited(ids: list[str]) -> None:
    other = Skillbook.loads(foreign_json(*ids)) if ids else Skillbook()
    book = Skillbook()
    book.import_skills(other)
    assert [skill.content for skill in book] == [skill.content for skill in other]
    again = Skillbook.from_text(book.as_playbook()) if ids else Skillbook()
    assert [(skill.id, skill.content) for skill in again] == [(skill.id, skill.content) for skill in book]


TEXT = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(TEXT, TEXT, st.integers(0, 2**53 - 1)), max_size=6, unique_by=lambda entry: entry[1]))
def test_a_playbook_text_read_again_has_every_skill(entries: list[tuple[str, str, int]]) -> None:
    book = Skillbook()
    for section, content, helpful in entries:
        book.add_skill(section, content, metadata={"helpful": helpful})
    again = Skillbook.from_text(book.as_playbook()) if entries else Skillbook()
    assert sorted((skill.id, skill.helpful) for skill in again) == sorted((skill.id, skill.helpful) for skill in book)


@given(st.lists(st.tuples(TEXT, TEXT, st.integers(0, 9**15), st.integers(1, 4)), max_size=6, unique_by=lambda e: e[1]))
def test_bullet_lines_read_again_have_every_skill(entries: list[tuple[str, str, int, int]]) -> None:
    book = Skillbook()
    for section, content, helpful, sources in entries:
        skill = book.add_skill(section, content, metadata={"helpful": helpful, "harmful": helpful // 2})
        for number in range(sources):
            book.update_skill(skill.id, insight_source=InsightSource(f"t{number}"))
    again = Skillbook.from_text(book.as_bullets()) if entries else Skillbook()
    assert counters(again) == counters(book)
    if entries:
        assert counters(Skillbook.from_text(again.as_bullets())) == counters(book)


def counters(book: Skillbook) -> list[tuple[str, int, int, int]]:
    """Of one source, the text does not say that it is there."""
    found = ((skill.id, skill.helpful, skill.harmful, len(skill.sources)) for skill in book)
    return sorted((id, helpful, harmful, count if count > 1 else 0) for id, helpful, harmful, count in found)


def test_a_store_that_has_such_ids_already_is_shown_and_exported(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book:
        for number in range(4):
            book.add_skill("a", f"Rule {number}.")
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for number, new in enumerate(("a]1", "a 2", "a\n3"), start=1):
            old = f"a-0000{number}"
            database.execute("UPDATE skill SET id = ? WHERE id = ?", (new, old))
            database.execute("UPDATE skill SET data = replace(data, ?, ?)", (json.dumps(old), json.dumps(new)))
    with Skillbook.open(path) as book:
        assert len(book.as_prompt().splitlines()) == 5
        assert len(Skillbook.from_text(book.as_playbook())) == 4
        copy = Skillbook()
        assert [skill.id for skill in copy.import_skills(book)] == ["a_1", "a_2", "a_3", "a-00004"]


def test_import_names_what_it_renames(tmp_path: Path) -> None:
    (tmp_path / "theirs.json").write_text(book_json("a-00001", *ODD_IDS), encoding="utf-8")
    done = ace("skillbook", "import", "theirs.json", folder=tmp_path)
    assert done.code == 0, done.err
    assert "is now" in done.out + done.err
    assert ace("skillbook", "export", "o.txt", folder=tmp_path).code == 0
    done = ace("skillbook", "import", "o.txt", "--skillbook", "again.db", "--json", folder=tmp_path)
    assert done.code == 0, done.err
    assert len(Skillbook.open(tmp_path / "again.db")) == 1 + len(ODD_IDS)


def test_an_id_that_cannot_be_cited_is_refused_where_it_is_given() -> None:
    for id in (*ODD_IDS, ""):
        with pytest.raises(ValueError, match="is not a valid id"):
            Skillbook().add_skill("a", "One.", id)
