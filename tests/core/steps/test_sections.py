"""Sections of a fixed list: new skills are moved to the nearest of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace import Skillbook, TraceAnalyser
from ace.runners import LearningSettings
from ace.steps import listed_section
from tests.support.clients import client_for
from tests.support.command_line import Run
from tests.support.role_inputs import REFLECTION, update
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

FOUR = ["TypeScript Patterns", "Build & Test Patterns", "Dependency Patterns", "Architecture Patterns"]


@pytest.mark.parametrize(
    ("section", "content", "expected"),
    [
        ("typescript patterns", "Anything about tests.", "TypeScript Patterns"),
        ("BUILD_TEST_PATTERNS", "Anything.", "Build & Test Patterns"),
        ("lessons", "Fix the compiler error before the lint.", "TypeScript Patterns"),
        ("lessons", "A type error hides behind the cast.", "TypeScript Patterns"),
        ("lessons", "Modules need the suffix .js.", "TypeScript Patterns"),
        ("lessons", "Run the tests before pushing.", "Build & Test Patterns"),
        ("npm", "Prefer ci.", "Build & Test Patterns"),
        ("lessons", "Discovered work becomes an entry of its own.", "Dependency Patterns"),
        ("lessons", "Keep the layers apart.", "Architecture Patterns"),
        ("", "Keep the layers apart.", "Architecture Patterns"),
    ],
)
def test_a_skill_belongs_to_the_section_of_its_name_else_to_that_of_its_subject(
    section: str, content: str, expected: str
) -> None:
    assert listed_section(section, content, FOUR) == expected


@pytest.mark.parametrize(
    ("section", "content", "expected"),
    [
        ("sql", "An index per query.", "Databases"),
        ("tests", "Mock no databases.", "Databases"),
        ("css", "Use rem for sizes.", "Everything else"),
    ],
)
def test_in_another_list_the_words_decide_and_then_the_last_section(section: str, content: str, expected: str) -> None:
    sections = ["Databases", "Style sheets", "Everything else"]
    found = listed_section(section, content if section != "sql" else f"{content} Databases need one.", sections)
    assert found == expected


def test_without_a_list_nothing_is_moved() -> None:
    assert listed_section("Lessons", "Run the tests.", []) == "Lessons"


@pytest.mark.parametrize(("sections", "error"), [("Rules", TypeError), (["a", " "], ValueError)])
def test_a_list_that_is_none_is_refused(sections: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="sections must"):
        LearningSettings(sections=sections)


def script(request: ScriptedRequest) -> Mapping[str, Any] | str:
    if request.role == "reflector":
        return REFLECTION
    operations = (
        {"type": "ADD", "section": "lessons", "content": "Run the tests before pushing."},
        {"type": "UPDATE", "skill_id": "old-00001", "content": "Run all tests."},
    )
    return update(*operations) if request.role == "skill_manager" else "ready"


def test_a_run_moves_new_skills_and_no_others() -> None:
    book = Skillbook()
    book.add_skill("old", "Run tests.")
    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(client_for(server), skillbook=book, prove=False, sections=FOUR)
        runner.run([{"question": "Push?", "answer": "Yes.", "ground_truth": "No."}])
    assert {skill.content: skill.section for skill in book} == {
        "Run all tests.": "old",
        "Run the tests before pushing.": "Build & Test Patterns",
    }


@pytest.mark.parametrize("text", ['sections = ["Dependency Patterns", "Build & Test Patterns"]\n', "# by variable\n"])
def test_the_command_line_takes_the_list_from_the_settings(tmp_path: Path, here: Run, text: str) -> None:
    (tmp_path / "ace.toml").write_text(text, encoding="utf-8")
    (tmp_path / "trace.json").write_text(
        json.dumps({"question": "Push?", "answer": "Yes.", "ground_truth": "No."}), encoding="utf-8"
    )
    environ = {"ACE_SECTIONS": "Dependency Patterns, Build & Test Patterns"} if text.startswith("#") else {}
    with ScriptedServer(script) as server:
        done = here(
            *("learn", "trace.json", "--no-prove", "--model", "openai/scripted", "--api-base", server.api_base),
            environ=environ,
        )
    assert done.code == 0, done.err
    assert "Build & Test Patterns" in here("skillbook", "show").out
    assert "lessons" not in here("skillbook", "show").out
