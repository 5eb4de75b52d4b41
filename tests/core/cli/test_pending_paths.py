"""`ace learn` and `ace train` with the default of `--unproven`: what reaches the prompt of `ace ask`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import Run
from tests.support.corrected_chats import PAYER, TIDE, chat, correcting_script
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Script, ScriptedRequest, ScriptedServer

DEFAULT = {"ACE_UNPROVEN": "pending"}
UNJUDGED = {"question": "What about ebb? LESSON ebb", "answer": "None."}
JUDGED = {"question": "What about tide? LESSON tide", "answer": "None.", "reward": 0.0}


def options(server: ScriptedServer) -> list[str]:
    return ["--model", "openai/scripted", "--api-base", server.api_base]


def write_lines(path: Path, *records: Any) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


def prompt_of_ask(here: Run, server: ScriptedServer, question: str = "What about it?") -> str:
    assert here("ask", question, *options(server)).code == 0
    return server.by_role("agent")[-1].text


def test_a_lesson_that_no_one_judged_is_reported_as_pending_and_not_asked_with(tmp_path: Path, here: Run) -> None:
    write_lines(tmp_path / "in.jsonl", UNJUDGED, JUDGED)
    with ScriptedServer(learning_script()) as server:
        learn = ("learn", "in.jsonl", *options(server), "--yes", "--no-merge")
        done = here(*learn, "--json", environ=DEFAULT)
        assert done.code == 0, done.err
        assert (done.data["skills"]["added"], done.data["skills"]["pending"]) == (1, 1)
        assert [skill["content"] for skill in done.data["new_skills"]] == ["Remember LESSON tide."]
        prompt = prompt_of_ask(here, server)
        assert "LESSON tide" in prompt and "LESSON ebb" not in prompt
        [pending] = here("review", "--json").data["pending"]
        assert pending["content"] == "Remember LESSON ebb."
        assert here("review", "--accept", pending["id"]).code == 0
        assert "LESSON ebb" in prompt_of_ask(here, server)


def test_the_report_lists_what_is_pending_and_why(tmp_path: Path, here: Run) -> None:
    write_lines(tmp_path / "in.jsonl", UNJUDGED)
    with ScriptedServer(learning_script()) as server:
        done = here("learn", "in.jsonl", *options(server), "--yes", environ=DEFAULT)
    first, *rows = [" ".join(line.split()) for line in done.out.splitlines()]
    assert first == "Learned into skills.db: 1 skill pending"
    assert "skills left pending 1" in rows and not [row for row in rows if row.startswith("skills added")]
    place = rows.index("Pending, so not shown:")
    assert "LESSON ebb" in rows[place + 1] and rows[place + 2].endswith(", from in.jsonl#1")
    assert rows[-1] == "Next: ace review"


@pytest.mark.parametrize("choice", ["pending", "keep", "drop"])
def test_a_lesson_whose_proof_fails_is_shown_only_if_that_is_wanted(tmp_path: Path, here: Run, choice: str) -> None:
    lesson = replace(PAYER, rule="Bills from 500 euros on are paid by Okafor.")
    script: Script = correcting_script(lesson)

    def answer(request: ScriptedRequest) -> Any:
        wrong = {"reasoning": "r", "final_answer": PAYER.wrong, "skill_ids": []}
        return wrong if request.role == "agent" else script(request)

    write_lines(tmp_path / "in.jsonl", chat(lesson))
    with ScriptedServer(answer) as server:
        done = here("learn", "in.jsonl", *options(server), "--yes", "--unproven", choice)
        assert done.code == 0, done.err
        prompt = prompt_of_ask(here, server)
    assert ("Okafor" in prompt) == (choice == "keep")
    assert [skill["content"] for skill in here("review", "--json").data["pending"]] == (
        [lesson.rule] if choice == "pending" else []
    )


def test_a_lesson_whose_proof_passes_is_shown(tmp_path: Path, here: Run) -> None:
    write_lines(tmp_path / "in.jsonl", chat(TIDE))
    with ScriptedServer(correcting_script(TIDE)) as server:
        assert here("learn", "in.jsonl", *options(server), "--yes", environ=DEFAULT).code == 0
        assert TIDE.rule in prompt_of_ask(here, server)


def test_answers_that_nothing_judged_are_not_counted_as_wrong(tmp_path: Path, here: Run) -> None:
    questions = [{"question": f"What about LESSON w{number}?"} for number in range(2)]
    write_lines(
        tmp_path / "in.jsonl", *questions, {"question": "What about LESSON tide?", "ground_truth": "LESSON tide"}
    )
    with ScriptedServer(learning_script()) as server:
        train = ("train", "in.jsonl", *options(server), "--yes")
        done = here(*train, "--json", "--epochs", "2", environ=DEFAULT)
        assert done.code == 0, done.err
        assert done.data["answers"] == [
            {"epoch": 1, "right": 0, "of": 1, "not_judged": 2},
            {"epoch": 2, "right": 1, "of": 1, "not_judged": 2},
        ]
        with Skillbook.open("skills.db") as book:
            assert [skill.content for skill in book.skills(include_invalid=True)] == ["Remember LESSON tide."]
        assert "LESSON w0" not in prompt_of_ask(here, server)
        write_lines(tmp_path / "unjudged.jsonl", questions[0])
        assert "epoch 1: 1 not judged" in here("train", "unjudged.jsonl", *options(server)).out
        assert "epoch 1: 0 of 1" not in here("train", "unjudged.jsonl", *options(server), "--again").out
