"""`ace eval` on recorded runs: their cases are the questions."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import Run, ace
from tests.support.corrected_runs import RULE, chat, shop, write_runs
from tests.support.scripted_server import ScriptedRequest, ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(shop) as server:
        yield server


@pytest.fixture
def model(server: ScriptedServer, tmp_path: Path) -> list[str]:
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("returns", RULE)
    return ["--model", "openai/scripted", "--api-base", server.api_base]


def test_the_corrected_questions_of_recorded_runs_are_asked_again(tmp_path: Path, model: list[str]) -> None:
    write_runs(tmp_path / "traces", 3)
    (tmp_path / "traces" / "thanks.json").write_text(json.dumps(chat("door", corrected=False)), encoding="utf-8")
    done = ace("eval", "traces", *model, folder=tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("Accuracy 0.0% without skills, 100.0% with them: +100.0 points")
    assert "answering 3 samples, 6 answers in all," in done.err
    assert "skipped 1 run without a case, in which no one said what is right" in done.err


def test_an_answer_to_a_corrected_question_is_judged_by_its_correction(here: Run, model: list[str]) -> None:
    write_runs(Path("traces"), 1)
    [sample] = here("eval", "traces", *model, "--json").data["samples"]
    [before], [after] = sample["baseline"], sample["learned"]
    assert (before["answer"], before["correct"]) == ("You have 30 days.", 0.0)
    assert (after["answer"], after["correct"]) == ("You have 14 days.", 1.0)


def test_feedback_on_an_answer_is_not_mistaken_for_a_right_answer(here: Run, model: list[str]) -> None:
    record = {"question": "How many days?", "answer": "You have 30 days.", "feedback": "That is wrong, it is 14 days."}
    Path("rated.jsonl").write_text(json.dumps(record), encoding="utf-8")
    done = here("eval", "rated.jsonl", *model)
    assert done.code == 0, done.err
    assert done.out.startswith("Accuracy 0.0% without skills, 100.0% with them")


def test_runs_without_cases_say_what_they_lack(here: Run, model: list[str], server: ScriptedServer) -> None:
    write_runs(Path("traces"), 2, corrected=False)
    done = here("eval", "traces", *model)
    assert (done.code, done.out) == (2, "")
    assert "nothing to ask: 2 runs without a case: no one said which of their answers were wrong" in done.err
    assert len(server.by_role("judgements")) == 2  # the model decides that thanks are not a correction
    assert server.by_role("agent") == []


def test_an_input_that_cannot_be_read_does_not_hide_the_runs(here: Run, model: list[str]) -> None:
    write_runs(Path("traces"), 1)
    Path("traces/broken.json").write_text('{"messages": [', encoding="utf-8")
    done = here("eval", "traces", *model)
    assert done.code == 1
    assert "not all inputs can be used:\n    traces/broken.json" in done.err
    assert done.out.startswith("Accuracy 0.0% without skills, 100.0% with them")


def test_praise_does_not_make_an_answer_right(here: Run, model: list[str]) -> None:
    record = {"question": "How many days?", "answer": "You have 30 days.", "feedback": "How kind of you!"}
    Path("rated.jsonl").write_text(json.dumps(record), encoding="utf-8")
    done = here("eval", "rated.jsonl", *model)
    assert (done.code, done.out) == (2, "")
    assert "nothing to ask: 1 run without a case" in done.err


def test_a_run_about_which_the_model_gives_no_usable_answer_is_skipped(
    here: Run, model: list[str], server: ScriptedServer
) -> None:
    write_runs(Path("traces"), 2)

    def script(request: ScriptedRequest) -> Mapping[str, Any] | str:
        return "?" if request.role == "judgements" and "lamp" in request.text else shop(request)

    server.script = script
    done = here("eval", "traces", *model, "--json")
    assert done.code == 0, done.err
    assert [sample["question"] for sample in done.data["samples"]] == ["How many days do I have to return the kettle?"]
    assert "1 run skipped, because the model gave no usable answer about them" in done.err
