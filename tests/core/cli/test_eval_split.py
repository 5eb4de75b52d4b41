"""`ace eval --split`: learns from the older runs, and asks the questions of the newest ones in three ways."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import ACE, Run, ace, command_environment
from tests.support.corrected_runs import CORRECTION, RULE, chat, shop, write_runs
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.workspace.project import ROOT


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(shop) as server:
        yield server


@pytest.fixture
def model(server: ScriptedServer) -> list[str]:
    return ["--model", "openai/scripted", "--api-base", server.api_base]


def test_the_rate_of_repeated_mistakes_is_shown_in_three_ways(tmp_path: Path, model: list[str]) -> None:
    write_runs(tmp_path / "logs", 10)
    done = ace("eval", "logs", "--split", "0.8", *model, "--yes", folder=tmp_path)
    assert done.code == 0, done.err
    title, head, *rows = done.out.splitlines()
    assert title.startswith("Learned 1 skill from the older 8 of 10 runs in ")
    assert title.endswith("The other 2 have 2 mistakes. Repeated:")
    assert head.split("  ")[0] == "" and "rate [95 %]" in head
    assert [row.split("  ")[0] for row in rows[:3]] == ["without skills", "with skills", "raw memory"]
    assert "2 of 2    100% [34, 100]" in rows[0]
    assert "0 of 2        0% [0, 66]" in rows[1]
    assert "0 of 2        0% [0, 66]" in rows[2]
    assert "\x1b" not in done.out
    said = done.err.splitlines()
    assert said[0].startswith("ace: learning from the older 8 of 10 runs with openai/scripted at ")
    assert said[2].startswith("ace: reading what persons said in 2 runs with openai/scripted at ")
    assert said[3] == "ace: the newest 2 of 10 runs have 2 questions; asking for 6 answers"
    assert not (tmp_path / "skills.db").exists()


def test_the_estimate_comes_before_the_first_call(here: Run, model: list[str], server: ScriptedServer) -> None:
    write_runs(Path("logs"), 5)
    done = here("eval", "logs", "--split", "0.8", *model[:3], "http://127.0.0.1:9/v1")
    assert done.code == 2
    assert "tokens in 12 calls, at a price that is not known" in done.err.splitlines()[1]
    assert server.requests == []


def test_json_has_the_rates_and_every_answer(here: Run, model: list[str]) -> None:
    write_runs(Path("logs"), 5)
    found = here("eval", "logs", "--split", "0.8", *model, "--json").data
    assert found["split"] == {"share": 0.8, "learned": 4, "held_out": 1}
    rates = {rate["name"]: rate for rate in found["rates"]}
    assert {name: (rate["repeated"]["value"], rate["mistakes"]) for name, rate in rates.items()} == {
        "without skills": (1.0, 1),
        "with skills": (0.0, 1),
        "raw memory": (0.0, 1),
    }
    assert rates["without skills"]["p_value"] == 1.0
    assert found["learning"]["new_skills"][0]["content"] == RULE
    [question] = found["questions"]
    assert question["question"] == "How many days do I have to return the mirror?"
    assert question["wrong"] == "You have 30 days."
    assert [answers[0]["answer"] for answers in question["answers"].values()] == [
        "You have 30 days.",
        "You have 14 days.",
        "You have 14 days.",
    ]


def test_the_newest_runs_are_held_out_whatever_their_files_are_called(here: Run, model: list[str]) -> None:
    folder = Path("logs")
    folder.mkdir()
    for day, thing in ((9, "kettle"), (1, "lamp"), (5, "chair")):
        (folder / f"{thing}.json").write_text(json.dumps(chat(thing, day=day)), encoding="utf-8")
    found = here("eval", "logs", "--split", "0.7", *model, "--json").data
    assert [question["question"] for question in found["questions"]] == [
        "How many days do I have to return the kettle?"
    ]


def test_the_skillbook_of_the_user_is_neither_read_nor_changed(here: Run, model: list[str]) -> None:
    write_runs(Path("logs"), 5, corrected=True)
    with Skillbook.open("skills.db") as book:
        book.add_skill("returns", "Be polite.")
    before = Path("skills.db").read_bytes()
    here("eval", "logs", "--split", "0.8", *model)
    assert Path("skills.db").read_bytes() == before


def test_what_was_learned_and_answered_is_not_paid_for_twice(
    here: Run, model: list[str], server: ScriptedServer
) -> None:
    write_runs(Path("logs"), 5)
    command = ["eval", "logs", "--split", "0.8", *model, "--learned", "eval.db", "--answers", "answers.jsonl"]
    first = here(*command)
    assert first.code == 0, first.err
    paid = ("reflector", "skill_manager", "agent")
    asked = [len(server.by_role(role)) for role in paid]
    second = here(*command)
    assert [len(server.by_role(role)) for role in paid] == asked
    assert first.out.splitlines()[1:] == second.out.splitlines()[1:]
    with Skillbook.open("eval.db") as book:
        assert [skill.content for skill in book.skills()] == [RULE]


def test_a_skillbook_that_knows_the_newest_runs_is_rejected(
    here: Run, model: list[str], server: ScriptedServer
) -> None:
    write_runs(Path("logs"), 5)
    assert here("learn", "logs", *model, "--skillbook", "mine.db").code == 0
    asked = len(server.requests)
    done = here("eval", "logs", "--split", "0.8", *model, "--learned", "mine.db")
    assert (done.code, done.out) == (2, "")
    assert "'mine.db' has learned from 1 of the 1 newest runs" in done.err
    assert len(server.requests) == asked


@pytest.mark.parametrize("last", [chat("mirror", corrected=False), {"question": "2+2?", "answer": "4"}])
def test_without_cases_in_the_newest_runs_nothing_is_learned(
    here: Run, model: list[str], server: ScriptedServer, last: dict[str, Any]
) -> None:
    write_runs(Path("logs"), 5)
    Path("logs/05.json").write_text(json.dumps(last), encoding="utf-8")
    done = here("eval", "logs", "--split", "0.8", *model, "--learned", "eval.db")
    assert (done.code, done.out) == (2, "")
    assert "nothing to ask: the newest 1 of 5 runs have no case: no one said which" in done.err
    assert len(server.by_role("judgements")) == ("messages" in last)
    assert [request for request in server.requests if request.role not in ("", "judgements")] == []
    assert not Path("eval.db").exists()


def test_without_a_mistake_in_the_newest_runs_nothing_is_paid(
    here: Run, model: list[str], server: ScriptedServer
) -> None:
    lines = [{"question": f"{n}+1?", "answer": str(n + 1), "ground_truth": str(n + 1)} for n in range(5)]
    Path("scored.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    done = here("eval", "scored.jsonl", "--split", "0.8", *model)
    assert (done.code, done.out) == (2, "")
    assert "have 1 question, and no answer in them was wrong" in done.err
    assert server.requests == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--split", "0"], "the option --split must be between 0 and 1, such as 0.8, got 0"),
        (["--split", "1.5"], "got 1.5"),
        (["--split", "0.1"], "--split 0.1 of 3 runs leaves nothing to learn from"),
        (["--split", "0.8", "--skillbook", "a.db"], "--skillbook cannot be used with --split; --learned FILE.db keeps"),
        (["--split", "0.8", "--report", "out"], "--report cannot be used with --split"),
        (["--split", "0.8", "--leave-one-out"], "--leave-one-out cannot be used with --split"),
        (["--split", "0.8", "--learned", "a.json"], "--learned needs a .db file"),
        (["--learned", "a.db"], "--learned requires --split"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_cannot_be_used_are_named(here: Run, model: list[str], options: list[str], reason: str) -> None:
    write_runs(Path("logs"), 3)
    done = here("eval", "logs", *options, *model)
    assert (done.code, done.out) == (2, "")
    assert reason in done.err


def test_the_users_own_agent_answers_with_what_the_model_has_learned(here: Run, model: list[str]) -> None:
    write_runs(Path("logs"), 5)
    Path("agent.py").write_text(
        f"import sys; print('You have 14 days.' if {RULE!r} in sys.argv[1] else 'You have 30 days.')", encoding="utf-8"
    )
    agent = f"{sys.executable} agent.py {{question}}"
    command = ["eval", "logs", "--split", "0.8", *model, "--agent", agent]
    assert f"asking for 3 answers of the command {agent}" in here(*command).err
    found = here(*command, "--json").data
    assert [rate["repeated"]["value"] for rate in found["rates"]] == [1.0, 0.0, 1.0]
    assert found["place"] == "from a command"


def test_new_mistakes_are_counted_where_runs_were_right(here: Run, tmp_path: Path) -> None:
    lines = [{"question": f"Odd {n}?", "answer": "no", "ground_truth": "yes"} for n in range(4)]
    lines += [{"question": "Odd 5?", "answer": "no", "ground_truth": "yes"}]
    lines += [{"question": "Right?", "answer": "yes", "ground_truth": "yes"}]
    Path("scored.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    def stubborn(request: ScriptedRequest) -> object:
        return {"reasoning": "", "final_answer": "no"} if request.role == "agent" else shop(request)

    with ScriptedServer(stubborn) as server:  # type: ignore[arg-type]
        done = here("eval", "scored.jsonl", "--split", "0.7", "--model", "openai/x", "--api-base", server.api_base)
    assert done.code == 0, done.err
    assert "new mistakes" in done.out.splitlines()[1]
    assert all("1 of 1" in row for row in done.out.splitlines()[2:5])


def test_a_limit_of_cost_covers_learning_and_answers(here: Run, model: list[str], server: ScriptedServer) -> None:
    write_runs(Path("logs"), 10)
    priced = ["--model", "openai/gpt-4o-mini", *model[2:]]  # litellm knows its price
    command = ["eval", "logs", "--split", "0.8", *priced, "--learned", "eval.db", "--answers", "answers.jsonl"]
    stopped = here(*command, "--max-cost", "0.0002")
    assert (stopped.code, stopped.out) == (1, "")
    assert "stopped while learning (max_cost); the same command continues where it stopped" in stopped.err
    learned = here(*command, "--max-cost", "1")
    assert learned.code == 0, learned.err
    answered = len(server.by_role("agent"))
    many = here(*command[:-1], "others.jsonl", "--repeats", "40", "--max-cost", "0.001")
    assert (many.code, many.out) == (1, "")
    assert "(max_cost); --learned FILE.db and --answers FILE keep what was paid for" in many.err
    assert 0 < len(server.by_role("agent")) - answered < 240


def test_an_interrupted_evaluation_continues_where_it_stopped(
    tmp_path: Path, model: list[str], server: ScriptedServer
) -> None:
    write_runs(tmp_path / "logs", 5)
    held = threading.Event()

    def slow(request: ScriptedRequest) -> Mapping[str, Any] | str:
        if request.role == "reflector" and len(server.by_role("reflector")) == 2:
            held.wait(30)
        return shop(request)

    server.script = slow
    command = ["eval", "logs", "--split", "0.8", *model, "--workers", "1", "--learned", "eval.db"]
    with subprocess.Popen(
        [str(ACE), *command], cwd=tmp_path, env=command_environment(tmp_path), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while len(server.by_role("reflector")) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        printed = next(line for line in process.stderr if "stopping" in line)
        held.set()
        printed += process.stderr.read()
    assert process.returncode == 130
    assert "stopped while learning (cancelled); the same command continues where it stopped" in printed
    done = ace(*command, folder=tmp_path)
    assert done.code == 0, done.err
    read = [
        thing
        for request in server.by_role("reflector")
        for thing in set(re.findall(r"return the (\w+)\?", request.text))
    ]
    assert len(read) == len(set(read)) >= 2
    assert "Learned 1 skill from the older 4 of 5 runs" in done.out


def test_personal_data_of_older_runs_is_not_sent(here: Run, model: list[str], server: ScriptedServer) -> None:
    write_runs(Path("logs"), 2)
    older = chat("kettle of ann@firma-nord.de")
    Path("logs/01.json").write_text(json.dumps(older), encoding="utf-8")
    assert here("eval", "logs", "--split", "0.5", *model).code == 0
    answering = [request.text for request in server.by_role("agent") if "return the lamp?" in request.text]
    memories = [text for text in answering if CORRECTION in text]
    assert any("kettle" in text for text in memories)
    assert not any("ann@firma-nord.de" in text for text in memories)


def test_the_example_traces_of_the_repository_can_be_measured(here: Run) -> None:
    said = {
        "Wrong by a factor of 100": ("125000 euros", "1250.00 euros"),
        "You must not promise that": ("we have refunded your 640 euros", "a colleague will call you"),
    }

    def script(request: ScriptedRequest) -> Mapping[str, Any] | str:
        if request.role == "judgements":
            found = [(quote, *texts) for quote, texts in said.items() if quote in request.text]
            names = ("message", "quote", "wrong", "right")
            return {"judgements": [dict(zip(names, ("3", *texts), strict=True)) for texts in found]}
        if request.role == "agent":
            return {"reasoning": "", "final_answer": "I do not know."}
        if "You check whether an answer is right." in request.text:
            return {"difference": "It is not known.", "passes": False}
        return shop(request)

    with ScriptedServer(script) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        done = here("eval", ROOT / "examples" / "traces", "--split", "0.8", *model)
    assert done.code == 0, done.err
    assert "5 of 9 runs have no time, so they are taken in the order found" in done.err
    assert "The other 2 have 2 mistakes. Repeated:" in done.out
    [learned] = [line for line in done.out.splitlines() if line.startswith("with skills")]
    assert "2 of 2" in learned
