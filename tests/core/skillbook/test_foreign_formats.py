"""Books of other frameworks, playbook text and Markdown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ace.skill import InsightSource
from ace.skillbook import Skillbook, SkillbookError, SkillbookFileError
from tests.core.skillbook.clocks import ticking


def foreign(**changes: Any) -> dict[str, Any]:
    return {
        "skills": {
            "geo-00004": {
                "id": "geo-00004",
                "section": "geo",
                "content": "Four.",
                "helpful": 2,
                "harmful": 1,
            },
            "geo-00005": {"id": "geo-00005", "section": "geo", "content": "Five."},
        },
        "sections": {"geo": ["geo-00004", "geo-00005"]},
        "next_id": 5,
        "similarity_decisions": {
            "geo-00004,geo-00005": {"decision": "KEEP", "reasoning": "r", "similarity_at_decision": 0.9}
        },
        **changes,
    }


def test_the_shared_layout_is_read_with_and_without_counters() -> None:
    book = Skillbook.from_dict(foreign())
    assert [(skill.id, skill.helpful, skill.harmful) for skill in book] == [
        ("geo-00004", 2, 1),
        ("geo-00005", 0, 0),
    ]
    assert book.has_keep_decision("geo-00005", "geo-00004")


@pytest.mark.parametrize("next_id", [None, 0, 1, 4, 5, 6])
def test_a_wrong_or_missing_counter_never_overwrites_a_skill(next_id: int | None) -> None:
    data = foreign()
    if next_id is None:
        del data["next_id"]
    else:
        data["next_id"] = next_id
    book = Skillbook.from_dict(data)
    assert book.add_skill("geo", "New.").id == "geo-00006"
    assert [skill.content for skill in book] == ["Four.", "Five.", "New."]


@pytest.mark.parametrize("version", [None, 1])
def test_our_own_layout_without_counter_never_overwrites_a_skill(version: int | None) -> None:
    data = foreign(schema_version=1)
    del data["next_id"]
    assert Skillbook.from_dict(data).add_skill("geo", "New.").id == "geo-00006"


@pytest.mark.parametrize("version", ["1.0", "2", 1, 3])
def test_versioned_variants_with_a_list_are_read(version: str | int) -> None:
    data = {
        "schema_version": version,
        "skills": [
            {"id": "geo-1", "section": "geo", "content": "One."},
            {"section": "maths", "text": "Two."},
        ],
    }
    book = Skillbook.from_dict(data)
    assert [(skill.id, skill.section, skill.content) for skill in book] == [
        ("geo-1", "geo", "One."),
        ("maths-00002", "maths", "Two."),
    ]


def test_older_names_metadata_embeddings_and_sections_are_understood() -> None:
    data = {
        "bullets": {"x": {"content": "One.", "metadata": {"helpful": 4}, "embedding": [0.5, 1]}},
        "sections": {"geo": ["x"]},
    }
    (skill,) = Skillbook.from_dict(data)
    assert (skill.id, skill.section, skill.helpful, skill.embedding) == (
        "x",
        "geo",
        4,
        b"\0\0\0\x3f\0\0\x80\x3f",
    )


def test_fields_without_a_place_are_named_and_the_file_is_not_saved_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = foreign()
    data["skills"]["geo-00004"]["colour"] = "red"
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    before = path.read_bytes()
    book = Skillbook.load_from_file(path)
    assert "skills.colour" in caplog.text
    for merge in (False, True):
        with pytest.raises(SkillbookError, match=r"skills\.colour"):
            book.save_to_file(path, merge=merge)
    assert path.read_bytes() == before
    book.save_to_file(tmp_path / "ours.json")
    assert len(Skillbook.load_from_file(tmp_path / "ours.json")) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (foreign(sections={"geo": ["geo-00004", "geo-00004", "geo-00005"]}), "listed twice"),
        (foreign(sections={"geo": ["nobody"]}), "no such skill: 'nobody'"),
        (
            foreign(skills=[{"id": "a", "content": "x"}, {"id": "a", "content": "y"}], sections={}),
            "appears twice",
        ),
        (foreign(skills=[{"content": ""}], sections={}), "must not be empty"),
        (foreign(skills=[5], sections={}), r"skills\[0\]: must be an object"),
        (foreign(schema_version=True), "schema_version"),
    ],
)
def test_malformed_foreign_files_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(SkillbookFileError, match=message):
        Skillbook.from_dict(data)


PLAYBOOK = """## STRATEGIES & INSIGHTS
[str-00001] helpful=5 harmful=0 :: Check the units :: always.
[str-00007] helpful=0 harmful=2 neutral=1 :: Guess.

## COMMON MISTAKES
- [mis-00003] helpful=1 harmful=0 :: Off by one.
"""


def test_playbook_text_is_read_and_written() -> None:
    book = Skillbook.from_text(PLAYBOOK, clock=ticking())
    assert [(skill.id, skill.section, skill.content, skill.helpful, skill.harmful) for skill in book] == [
        ("str-00001", "STRATEGIES & INSIGHTS", "Check the units :: always.", 5, 0),
        ("str-00007", "STRATEGIES & INSIGHTS", "Guess.", 0, 2),
        ("mis-00003", "COMMON MISTAKES", "Off by one.", 1, 0),
    ]
    assert book.add_skill("common", "New.").id == "common-00008"
    again = Skillbook.from_text(book.as_playbook(), clock=ticking())
    assert again.as_playbook() == book.as_playbook()


def test_markdown_bullets_are_read_and_our_own_markdown_comes_back() -> None:
    text = (
        "# Notes\n\nSome words.\n\n## Style\n* Be [short](x).\n  And kind.\n+ Be clear.\n\n"
        "## Tests\n1. no bullet\n- Run them.\n"
    )
    book = Skillbook.from_text(text, clock=ticking())
    assert [(skill.id, skill.content) for skill in book] == [
        ("style-00001", "Be [short](x).\nAnd kind."),
        ("style-00002", "Be clear."),
        ("tests-00003", "Run them."),
    ]
    book.tag_skill("style-00002", "helpful", 3)
    again = Skillbook.from_text(book.as_markdown(), clock=ticking())
    assert again.as_markdown() == book.as_markdown()


BULLETS = """# Playbook

## TypeScript Patterns
[Bullet #ts-001, helpful:12, harmful:0, Aggregated from 3 instances] Use .js in imports.
- [Bullet #ts-002, helpful:0, harmful:4] Cast to any.

## Build & Test Patterns
[Bullet #42,helpful: 1,harmful: 0] Run npm ci first.
"""


def test_bullet_lines_are_read_and_written_with_their_counters_and_instances() -> None:
    book = Skillbook.from_text(BULLETS, clock=ticking())
    found = [(skill.id, skill.section, skill.helpful, skill.harmful, len(skill.sources)) for skill in book]
    assert found == [
        ("ts-001", "TypeScript Patterns", 12, 0, 3),
        ("ts-002", "TypeScript Patterns", 0, 4, 0),
        ("42", "Build & Test Patterns", 1, 0, 0),
    ]
    written = book.as_bullets()
    assert written.splitlines()[:2] == BULLETS.splitlines()[2:4]
    again = Skillbook.from_text(written, clock=ticking())
    assert again.as_bullets() == written
    assert again.dumps() == book.dumps()


def test_the_number_of_instances_is_that_of_the_sources_of_a_merged_skill() -> None:
    book = Skillbook()
    first, second = (
        book.add_skill("a", f"Rule {trace}.", insight_source=InsightSource(trace), metadata={"helpful": 2})
        for trace in ("bd-1/t1", "bd-2/t2")
    )
    assert "Aggregated" not in book.as_bullets()
    book.merge_skills(first.id, [second.id])
    assert (
        book.as_bullets()
        == f"## a\n[Bullet #{first.id}, helpful:4, harmful:0, Aggregated from 2 instances] Rule bd-1/t1.\n"
    )


def test_a_huge_number_of_instances_does_not_fill_the_memory() -> None:
    line = "[Bullet #a-1, helpful:1, harmful:0, Aggregated from 1000000000 instances] Text."
    assert len(Skillbook.from_text(line).get_skill("a-1").sources) == 1000  # type: ignore[union-attr]  # it is there


@pytest.mark.parametrize(
    "line",
    [
        "[Bullet #a-1, helpful:1] no second counter",
        "[Bullet #a-1, helpful:x, harmful:0] no number",
        "[Bullet a-1, helpful:1, harmful:0] no number sign",
        "[Bullet #a-1, helpful:1, harmful:0]",
    ],
)
def test_a_line_that_is_almost_a_bullet_line_is_not_a_skill(line: str) -> None:
    with pytest.raises(
        SkillbookFileError, match=r"no skills found in this text: .*\[Bullet #id, helpful:0, harmful:0\]"
    ):
        Skillbook.from_text(line)


@pytest.mark.parametrize("name", ["book.md", "book.txt"])
def test_text_files_are_loaded_by_suffix(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(PLAYBOOK, encoding="utf-8")
    book = Skillbook.load_from_file(path)
    assert len(book) == 3
    with pytest.raises(ValueError, match=r"saved as \.json or \.db"):
        book.save_to_file(path)
    assert path.read_text(encoding="utf-8") == PLAYBOOK


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no skills found in this text"),
        (b"only words\n", "no skills found in this text"),
        (b"- [a-1] x\n- [a-1] y\n", "line 2: the id 'a-1' appears twice"),
        (b"- caf\xe9\n", "not UTF-8"),
    ],
)
def test_text_without_skills_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "book.md"
    path.write_bytes(data)
    with pytest.raises(SkillbookFileError, match=message) as caught:
        Skillbook.load_from_file(path)
    assert str(path) in str(caught.value)


def test_a_skill_folder_has_a_head_and_the_skills(tmp_path: Path) -> None:
    book = Skillbook.from_text(PLAYBOOK, clock=ticking())
    file = book.save_skill_folder(tmp_path / "units", name="units", description='Units: "always"\nchecked.')
    lines = file.read_text(encoding="utf-8").splitlines()
    assert file == tmp_path / "units" / "SKILL.md"
    assert lines[:4] == ["---", "name: units", 'description: "Units: \\"always\\" checked."', "---"]
    assert book.as_markdown() in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "description"), [("Bad Name", "x"), ("-a", "x"), ("a" * 65, "x"), ("a", " "), ("a", "x" * 1025)]
)
def test_a_skill_folder_needs_a_name_that_agents_accept(tmp_path: Path, name: str, description: str) -> None:
    with pytest.raises(ValueError, match=r"name|description"):
        Skillbook().save_skill_folder(tmp_path, name=name, description=description)
    assert list(tmp_path.iterdir()) == []


def test_a_long_line_of_blanks_is_read_at_once() -> None:
    # In a process of its own: a pattern that goes back and forth over this for minutes lets no other thread run.
    code = (
        "from ace.skillbook import Skillbook; text = '- Do it.' + ' ' * 300_000 + '(helpful or not)'; "
        "print(len(Skillbook.from_text(text)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")
