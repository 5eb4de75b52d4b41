"""The chat history of Aider has all sessions of a project."""

from __future__ import annotations

from pathlib import Path

from tests.core.logs.log_files import DATA, run_of, runs_of, steps_of

START = "# aider chat started at 2026-01-02 10:00:00\n\n> Aider v0.86.0  \n> Main model: m with diff edit format  \n\n"


def test_a_history_of_two_sessions() -> None:
    first, second = runs_of(DATA / "aider.chat.history.md")

    assert [step for step in steps_of(first) if not step.startswith("tool")] == [
        "person: How many days may a customer return the blue kettle?",
        "agent: A customer may return it within 30 days.",
        "person: No, that's wrong. It is 14 days.",
        "agent: You are right, 14 days.",
    ]
    assert (second.task, second.answer) == ("2+2?", "4")


def test_a_history_in_its_folder_with_a_session_in_which_nothing_was_said(tmp_path: Path) -> None:
    chat = "#### set the price  \n#### to 7  \n\n# A heading\n\n> Applied edit to a.py  \n\nDone.\n\n#### /tokens  \n\n"
    (tmp_path / ".aider.chat.history.md").write_text(f"{START}{START}{chat}#### /ask why?\n\nBecause.\n")
    (tmp_path / ".aider.input.history").write_text("# 2026\n+set the price\n")

    run = run_of(tmp_path)

    assert steps_of(run) == [
        "tool: Aider v0.86.0\nMain model: m with diff edit format",
        "person: set the price\nto 7",
        "agent: # A heading",
        "tool: Applied edit to a.py",
        "agent: Done.",
        "harness: /tokens",
        "person: why?",
        "agent: Because.",
    ]
    assert (run.model, run.steps[1].place) == ("m", "11")
