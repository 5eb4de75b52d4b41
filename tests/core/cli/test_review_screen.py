"""`ace review` in a terminal: one lesson at a time, and a key for each decision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace.skill import CaseCheck, InsightSource, SkillCase
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.scripted_server import ScriptedServer
from tests.support.terminal import Terminal

FIRST, SECOND, THIRD = "piers-00001", "piers-00002", "piers-00003"
KEYS = "[a]ccept  [r]eject + why  [e]dit  [s]how session  [d]iff  [l]ater  [q]uit"
WHY = "Why? Later reflections are shown the reason"
UP = "\x1b[A"
CTRL_C, CTRL_D = "\x03", "\x04"


def lesson(number: int) -> UpdateOperation:
    question = f"How long is pier {number}?"
    case = SkillCase.make(
        question,
        CaseCheck("contains", f"{number} m"),
        wrong=f"It is {number}.",
        correction=f"No, it is {number} m. Name the unit.",
        expected=f"{number} m",
        evidence="person",
    )
    return UpdateOperation(
        "ADD",
        section="piers",
        content=f"Name the unit of pier {number}.",
        evidence=f"user: No, it is \u202e{number} m \x1b[31mred",
        insight_source=InsightSource(
            f"5575ae1c4f02063d@logs/a.jsonl#{number}",
            question,
            error_identification="It has no unit.",
            evidence="person",
        ),
        cases=[case],
        pending="it failed the test on its case",
    )


def filled(location: Path, count: int = 3) -> None:
    book = Skillbook.open(location)
    assert not book.apply_update(UpdateBatch("", [lesson(number) for number in range(1, count + 1)])).skipped
    if book.store is None:
        book.save_to_file(location)
    book.close()


def statuses(location: Path) -> list[str]:
    with Skillbook.open(location) as book:
        return [skill.status for skill in book.skills(include_invalid=True)]


@pytest.fixture(params=["skills.db", "skills.json"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    filled(tmp_path / str(request.param))
    return tmp_path / str(request.param)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    filled(tmp_path / "skills.db")
    return tmp_path / "skills.db"


def test_a_lesson_is_shown_with_everything_that_a_decision_needs(location: Path) -> None:
    (location.parent / "ace.toml").write_text(f'skillbook = "{location.name}"\nblock = "AGENTS.md"\n', encoding="utf-8")
    terminal = Terminal(location.parent, "review", environ={"NO_COLOR": "1"})
    terminal.wait_for(KEYS)
    terminal.type("q")
    assert terminal.wait() == 0
    shown = " ".join(terminal.text.split())
    for expected in (
        "Lesson 1 of 3",
        "Name the unit of pier 1.",
        f"id {FIRST}, in section 'piers'",
        "pending it failed the test on its case",
        "evidence person",
        "asked again not yet (1 question)",
        f"lands in {location.name} AGENTS.md (managed block), about",
        "learned from logs/a.jsonl#1",
        "went wrong It has no unit.",
        "in the run user: No, it is [U+202E]1 m [U+001B][31mred",
        "question How long is pier 1?",
        "answer It is 1.",
        "correction No, it is 1 m. Name the unit.",
        "right answer 1 m",
        "3 skills still pending",
    ):
        assert expected in shown, shown
    assert all(len(line) <= 80 for line in terminal.text.splitlines())
    assert b"\x1b[3" not in terminal.shown
    assert statuses(location) == ["pending"] * 3


def test_each_lesson_gets_its_decision(location: Path) -> None:
    terminal = Terminal(location.parent, "review", location.name)
    terminal.wait_for(KEYS)
    terminal.type("a")
    terminal.wait_for("Lesson 2 of 3")
    terminal.type("r")
    terminal.wait_for(WHY)
    terminal.type("This pier is gone.\n")
    terminal.wait_for("Lesson 3 of 3")
    terminal.type("l")
    assert terminal.wait() == 0
    assert "1 accepted, 1 rejected, 1 skill still pending" in terminal.text
    assert (f"`ace undo {FIRST}` undoes what you accepted." in terminal.text) == (location.suffix == ".db")
    assert statuses(location) == ["active", "invalid", "pending"]
    with Skillbook.open(location) as book:
        assert [skill.reason for skill in book.rejected_skills()] == ["This pier is gone."]


def test_what_was_typed_ahead_decides_too(store: Path) -> None:
    terminal = Terminal(store.parent, "review")
    terminal.wait_for(KEYS)
    terminal.type("ra wrong unit\nla")
    assert terminal.wait() == 0
    with Skillbook.open(store) as book:
        assert [skill.reason for skill in book.rejected_skills()] == ["a wrong unit"]
    assert statuses(store) == ["invalid", "pending", "active"]


def test_cursor_keys_and_unknown_keys_decide_nothing(store: Path) -> None:
    terminal = Terminal(store.parent, "review")
    terminal.wait_for(KEYS)
    for keys in (UP, "\x1bOA", "\x1b[1;5A", "\n", "x", "\t", "\u00e4"):
        terminal.type(keys)
    terminal.type("d")
    terminal.wait_for("+- [piers-00001] Name the unit of pier 1.")
    terminal.type("q")
    assert terminal.wait() == 0
    assert statuses(store) == ["pending"] * 3


@pytest.mark.parametrize("end", [CTRL_D, "q"])
def test_a_rejection_without_a_reason_is_none(store: Path, end: str) -> None:
    terminal = Terminal(store.parent, "review")
    terminal.wait_for(KEYS)
    terminal.type("r")
    terminal.wait_for(WHY)
    terminal.type("\n")
    terminal.wait_for(WHY, times=2)
    terminal.type(CTRL_D)
    terminal.wait_for(KEYS, times=2)
    terminal.type(end)
    assert terminal.wait() == 0
    assert statuses(store) == ["pending"] * 3


@pytest.mark.parametrize("keys", ["", "r"])
def test_ctrl_c_keeps_what_was_decided_and_gives_the_terminal_back(store: Path, keys: str) -> None:
    terminal = Terminal(store.parent, "review")
    terminal.wait_for(KEYS)
    terminal.type("a")
    terminal.wait_for(KEYS, times=2)
    terminal.type(keys)
    if keys:
        terminal.wait_for(WHY)
    terminal.send("C")
    assert terminal.wait() == 130
    assert "ace: interrupted" in terminal.text and "Traceback" not in terminal.text
    assert statuses(store) == ["active", "pending", "pending"]


def test_the_difference_is_that_of_the_file_that_agents_read(store: Path) -> None:
    (store.parent / "ace.toml").write_text('block = "AGENTS.md"\n', encoding="utf-8")
    (store.parent / "AGENTS.md").write_bytes(b"# Ours\n")
    terminal = Terminal(store.parent, "review")
    terminal.wait_for(KEYS)
    terminal.type("d")
    terminal.wait_for("+<!-- ace:skills end -->")
    assert "+++ AGENTS.md if accepted" in terminal.text
    assert (store.parent / "AGENTS.md").read_bytes() == b"# Ours\n"
    terminal.type("aq")
    assert terminal.wait() == 0
    assert "Name the unit of pier 1." in (store.parent / "AGENTS.md").read_text(encoding="utf-8")


def test_the_session_is_shown_page_by_page(store: Path) -> None:
    logs = store.parent / "logs"
    logs.mkdir()
    turns = [
        {"role": "user", "content": "How long is pier 1?"},
        {"role": "assistant", "content": "\n".join(f"line {number}" for number in range(60))},
    ]
    (logs / "a.jsonl").write_text(f"{json.dumps(turns)}\n" * 2, encoding="utf-8")
    terminal = Terminal(store.parent, "review")
    terminal.wait_for(KEYS)
    terminal.type("s")
    for page in (1, 2, 3):
        terminal.wait_for("-- more: any key, [q] ends --", times=page)
        assert "line 59" not in terminal.text
        terminal.type(" " if page < 3 else "n")
    terminal.wait_for("line 59")
    terminal.wait_for("-- more: any key, [q] ends --", times=4)
    terminal.type("qq")
    assert terminal.wait() == 0


def edited_with(store: Path, text: str, *, environ: dict[str, str] | None = None) -> Terminal:
    terminal = Terminal(store.parent, "review", environ=environ)
    terminal.wait_for(KEYS)
    terminal.type("e")
    terminal.wait_for("New text")
    terminal.type(f"{text}\n")
    terminal.wait_for(KEYS, times=2)
    terminal.type("q")
    assert terminal.wait() == 0
    return terminal


def test_an_edit_counts_as_a_correction_and_is_asked_again(store: Path) -> None:
    with ScriptedServer(lambda request: json.dumps({"reasoning": "", "final_answer": "1 m"})) as server:
        environ = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base, "OPENAI_API_KEY": "none"}
        terminal = edited_with(store, "Name metres.", environ=environ)
        assert any("Name metres." in str(request.messages) for request in server.requests)
    assert "Asked again: 1 of 1 passed." in terminal.text
    with Skillbook.open(store) as book:
        skill = book.get_skill(FIRST)
    assert skill is not None
    assert (skill.content, skill.status, skill.proof) == ("Name metres.", "pending", "proven")
    assert [(source.trace_id, source.evidence) for source in skill.sources][1:] == [("ace review", "person")]
    assert "1 of 1 question answered rightly by openai/scripted" in " ".join(terminal.text.split())


def test_without_a_model_an_edit_says_that_it_was_not_tested(store: Path) -> None:
    terminal = edited_with(store, "Name metres.")
    said = " ".join(terminal.text.split())
    assert "The new text was not tested, because no model can be asked" in said
    with Skillbook.open(store) as book:
        skill = book.get_skill(FIRST)
    assert skill is not None and (skill.content, skill.proof) == ("Name metres.", "unproven")


def test_the_editor_of_the_user_is_used(store: Path) -> None:
    editor = store.parent / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "Name metres." > "$1"\n', encoding="utf-8")
    editor.chmod(0o700)
    terminal = Terminal(store.parent, "review", environ={"EDITOR": str(editor)})
    terminal.wait_for(KEYS)
    terminal.type("e")
    terminal.wait_for("Lesson 1 of 3, edited")
    terminal.type("aq")
    assert terminal.wait() == 0
    with Skillbook.open(store) as book:
        assert [skill.content for skill in book] == ["Name metres."]


def test_two_hundred_lessons(tmp_path: Path) -> None:
    filled(tmp_path / "skills.db", 200)
    terminal = Terminal(tmp_path, "review")
    terminal.wait_for(KEYS)
    terminal.type("al" * 99)
    terminal.wait_for("Lesson 199 of 200")
    terminal.type("q")
    assert terminal.wait() == 0
    assert "99 accepted, 101 skills still pending" in terminal.text


def test_a_lesson_that_another_process_decides_is_passed_over(store: Path) -> None:
    terminal = Terminal(store.parent, "review")
    terminal.wait_for(KEYS)
    with Skillbook.open(store) as book:
        book.reject_skill(SECOND, "It is wrong.")
    terminal.type("l")
    terminal.wait_for("Lesson 3 of 3")
    terminal.type("q")
    assert terminal.wait() == 0
    assert "Lesson 2 of 3" not in terminal.text


def test_nothing_pending(tmp_path: Path) -> None:
    Skillbook().save_to_file(tmp_path / "skills.json")
    terminal = Terminal(tmp_path, "review", "skills.json")
    assert terminal.wait() == 0
    assert terminal.text == "No skill in skills.json is pending.\n"
