"""`ace skillbook test`, `prune --unneeded` and cases on the command line, with a model that follows rules."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook
from tests.core.cli.skillbook.conftest import contents
from tests.core.cli.skillbook.test_command import at_a_terminal
from tests.support.command_line import ACE, Run, ace, command_environment
from tests.support.corrected_chats import TIDE as TIDE_LESSON
from tests.support.corrected_chats import Lesson, chats, correcting_script
from tests.support.json_shape import misfits
from tests.support.scripted_server import Answer, HttpError, Reply, ScriptedRequest, ScriptedServer

EBB_LESSON = Lesson(
    "When is low water in Emden?",
    "8:30 pm",
    "No, times of low water are told as minus 20h30.",
    "minus 20h30",
    "Tell times of water as minus 20h30.",
    "minus 20h30",
)
FORM = "Write every time of day in the form 14h30."
SIGNER = "Contracts above 10,000 dollars are signed by Petersen."
HARMFUL = "Write every time of day in the form 2:30 pm, never in another one."
TIDE = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"), wrong="2:30 pm", expected="It is 14h30.")
SIGNS = SkillCase.make("Who signs a contract over 12,000 dollars?", CaseCheck("contains", "Petersen"))
SUM = SkillCase.make("What is 2 + 2?", CaseCheck("numeric", "4"), expected="4")

REPORT = {
    "schema": int,
    "command": str,
    "skillbook": str,
    "version": int | None,
    "model": str,
    "place": str,
    "passed": int,
    "failed": int,
    "not_run": int,
    "share": float | None,
    "stopped_by": str,
    "is_noted": bool,
    "spent": {
        "calls": int,
        "input_tokens": int,
        "output_tokens": int,
        "cost": float | None,
        "cached_input_tokens": int,
        "cache_write_tokens": int,
    },
    "cases": [dict],
    "skills": [
        {
            "skill_id": str,
            "section": str,
            "content": str,
            "verdict": str,
            "cases": [str],
            "interfering": [str],
            "reason": str,
        }
    ],
    "against": dict,
}


def final_answer(model: str, text: str) -> str:
    if "2 + 2" in text:
        return "4"
    if "contract over" in text:
        return "Petersen" if SIGNER in text or model == "strong" else "Anna"
    return "14h30" if FORM in text and HARMFUL not in text else "2:30 pm"


def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
    if request.role != "agent":
        return "ready"
    return {"reasoning": "By the rules.", "final_answer": final_answer(request.model, request.text)}


def slow(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
    answer = script(request)
    return Answer(answer, delay=0.4) if request.role == "agent" and not isinstance(answer, Reply) else answer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as started:
        yield started


@pytest.fixture
def model(server: ScriptedServer) -> list[str]:
    return ["--model", "openai/scripted", "--api-base", server.api_base]


def fill(book: Skillbook) -> None:
    book.add_skill("times", FORM, cases=[TIDE])
    book.add_skill("contracts", SIGNER, cases=[SIGNS])
    book.add_skill("sums", "Add the numbers.", cases=[SUM])
    book.add_skill("manners", "Be polite.")


@pytest.fixture(params=["skills.db", "skills.json"])
def location(request: pytest.FixtureRequest, folder: Path) -> str:
    """A skillbook of three skills with a case each and one without, as a store and as a JSON file."""
    path = folder / str(request.param)
    with Skillbook.open(path) as book:
        fill(book)
        if path.suffix == ".json":
            book.save_to_file(path)
    return path.name


@pytest.fixture
def db(folder: Path) -> Path:
    path = folder / "skills.db"
    with Skillbook.open(path) as book:
        fill(book)
    return path


def asked(server: ScriptedServer) -> int:
    return len(server.by_role("agent"))


def cases_in(path: Path) -> list[SkillCase]:
    with Skillbook.open(path) as book:
        return [case for skill in book.skills() for case in skill.cases]


def verdicts(data: Mapping[str, Any]) -> dict[str, str]:
    return {skill["skill_id"]: skill["verdict"] for skill in data["skills"]}


def test_a_green_book_is_green_and_its_results_are_noted(
    folder: Path, run: Run, model: list[str], location: str, server: ScriptedServer
) -> None:
    done = run("test", location, *model)
    assert done.code == 0, done.err
    assert done.err.splitlines()[0] == (
        f"ace: testing 3 cases of 3 skills, 3 answers to ask for, with openai/scripted at {server.api_base}"
    )
    assert done.err.splitlines()[-1] == "3 of 3 answers"
    assert done.out.splitlines()[0] == "3 of 3 cases passed (100%)"
    assert "times-00001" in done.out and "proven" in done.out
    assert asked(server) == 3
    noted = cases_in(folder / location)
    assert [case.last_result for case in noted] == ["passed"] * 3
    assert {case.model for case in noted} == {"openai/scripted"}
    shown = run("show", "--skillbook", location, "times-00001")
    assert TIDE.id in shown.out and "Proof: proven" in shown.out


def test_a_harmful_skill_added_by_hand_turns_it_red(folder: Path, run: Run, model: list[str], location: str) -> None:
    run("add", "times", HARMFUL, "--skillbook", location)
    done = run("test", location, *model)
    assert done.code == 1
    assert done.out.splitlines()[0] == "2 of 3 cases passed (67%), 1 failed"
    [row] = [line for line in done.out.splitlines() if line.startswith("failed")]
    assert all(text in row for text in (TIDE.id, "times-00001", TIDE.question, "2:30 pm", "14h30"))
    assert "--alone tells whether other skills interfere" in done.err
    told = run("test", location, "--alone", "--json", *model)
    assert told.code == 1
    assert verdicts(told.data)["times-00001"] == "interfered"
    [interfered] = [skill for skill in told.data["skills"] if skill["verdict"] == "interfered"]
    assert interfered["interfering"] == ["times-00005"]
    run("remove", "times-00005", "--skillbook", location, "--yes")
    assert run("test", location, *model).code == 0


def test_json_has_everything(folder: Path, run: Run, model: list[str], db: Path) -> None:
    done = run("test", "--json", "--without", *model)
    assert misfits(done.data, REPORT) == []
    assert done.err == ""
    assert verdicts(done.data)["sums-00003"] == "unneeded"
    assert done.data["version"] == 5
    assert [case["id"] for case in done.data["cases"]] == [TIDE.id, SIGNS.id, SUM.id]


def test_a_test_is_one_version_with_its_author_and_can_be_rolled_back(run: Run, model: list[str], db: Path) -> None:
    run("test", *model)
    versions = run("log", "--json").data["versions"]
    assert [(version["version"], version["author"]) for version in versions if version["author"]] == [
        (5, "ace skillbook test")
    ]
    run("rollback", "4", "--yes")
    assert {case.last_result for case in cases_in(db)} == {"not_run"}


def test_an_unchanged_book_and_model_are_tested_without_a_call(
    folder: Path, run: Run, model: list[str], location: str, server: ScriptedServer
) -> None:
    command = ["test", location, "--answers", "answers.jsonl", "--alone", "--without", *model]
    assert run(*command).code == 0
    before = (folder / location).read_bytes() if location.endswith(".json") else None
    server.clear()
    again = run(*command)
    assert again.code == 0
    assert server.requests == []  # not even to ask whether the model is there
    assert "0 answers to ask for" in again.err
    assert before is None or (folder / location).read_bytes() == before
    run("add", "times", HARMFUL, "--skillbook", location)
    assert run(*command).code == 1
    assert asked(server) > 0
    assert (
        run("test", location, "--answers", "answers.jsonl", *model, "--temperature", "1", "--json").data["spent"][
            "calls"
        ]
        == 3
    )


def test_only_what_changed(
    run: Run, model: list[str], db: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH")  # a stopped clock could not tell what came first
    run("test", *model)
    server.clear()
    assert run("test", "--changed", *model).code == 0
    assert server.requests == []
    run("edit", "contracts-00002", f"{SIGNER} Ask.")
    data = run("test", "--changed", "--json", *model).data
    assert [case["id"] for case in data["cases"]] == [SIGNS.id]
    nothing = run("test", "--changed", *model)
    assert nothing.code == 0
    assert nothing.out.startswith("no cases to test")


def test_only_some(run: Run, model: list[str], db: Path) -> None:
    data = run("test", "--only", SUM.id, "--only", "times-00001", "--json", *model).data
    assert [case["id"] for case in data["cases"]] == [TIDE.id, SUM.id]
    wrong = run("test", "--only", "tmes-00001", *model)
    assert wrong.code == 2
    assert "--only" in wrong.err and "'tmes-00001'" in wrong.err


def test_fail_under(run: Run, model: list[str], db: Path) -> None:
    run("add", "times", HARMFUL)
    assert run("test", "--fail-under", "0.6", *model).code == 0
    assert run("test", "--fail-under", "0.7", *model).code == 1
    assert run("test", "--fail-under", "1", *model).code == 1


def test_the_junit_file_can_be_read(folder: Path, run: Run, model: list[str], db: Path) -> None:
    run("add", "times", HARMFUL)
    assert run("test", "--junit", "report.xml", *model).code == 1
    suite = ElementTree.parse(folder / "report.xml").getroot()
    assert (suite.tag, suite.get("name"), suite.get("tests"), suite.get("failures")) == (
        "testsuite",
        "skills.db",
        "3",
        "1",
    )
    [case] = [element for element in suite if element.find("failure") is not None]
    assert case.get("classname") == "times-00001"
    assert case.get("name") == f"{TIDE.id}: {TIDE.question}"
    failure = case.find("failure")
    assert failure is not None and "Answer: 2:30 pm" in str(failure.text)


def test_which_skills_help_which_model(run: Run, model: list[str], db: Path) -> None:
    command = ["test", *model, "--against", "openai/strong"]
    done = run(*command)
    assert done.code == 0, done.err
    rows = {line.split()[0]: line.split()[1:3] for line in done.out.splitlines() if "-0000" in line}
    assert rows == {
        "times-00001": ["proven", "proven"],
        "contracts-00002": ["proven", "unneeded"],
        "sums-00003": ["unneeded", "unneeded"],
        "manners-00004": ["unproven", "unproven"],
    }
    assert {case.model for case in cases_in(db)} == {"openai/scripted"}
    data = run(*command, "--json").data
    assert verdicts(data["against"]["openai/strong"])["contracts-00002"] == "unneeded"
    same = run("test", *model, "--against", "openai/scripted")
    assert same.code == 2 and "--against" in same.err


def test_read_only_notes_nothing(run: Run, model: list[str], folder: Path, location: str) -> None:
    data = run("test", location, "--read-only", "--json", *model).data
    assert (data["passed"], data["is_noted"], data["version"]) == (3, False, None)
    assert {case.last_result for case in cases_in(folder / location)} == {"not_run"}


def test_a_case_that_cannot_be_judged_here_is_not_run(run: Run, model: list[str], db: Path) -> None:
    with Skillbook.open(db) as book:
        book.put_cases("manners-00004", [SkillCase.make("Elsewhere?", CaseCheck("environment", "browser"))])
    done = run("test", *model)
    assert done.code == 0
    assert "1 not run" in done.out.splitlines()[0]
    assert "the environment 'browser' does not exist" in done.out


def test_a_model_that_fails_in_the_middle_is_not_green(run: Run, folder: Path, db: Path) -> None:
    def broken(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        return HttpError(400, "no such thing") if "contract over" in request.text else script(request)

    with ScriptedServer(broken) as server:
        done = run("test", "--model", "openai/scripted", "--api-base", server.api_base)
    assert done.code == 1
    assert "1 not run" in done.out.splitlines()[0]
    assert [case.last_result for case in cases_in(db)] == ["passed", "not_run", "passed"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fail-under", "95"], "--fail-under"),
        (["--workers", "0"], "--workers"),
        (["--junit", "nowhere/report.xml"], "--junit: no such folder: 'nowhere'; create it first"),
        (["--answers", "."], "is a folder"),
        (["--answers", "notes.txt"], "notes.txt, line 1: this is not a judged answer"),
        (["--skillbook", "none.db"], "no such skillbook: 'none.db'"),
        (["--skillbook", "play.md"], "play.md"),
    ],
)
def test_what_cannot_be_done_is_wrong_usage_before_anything_is_asked(
    run: Run, folder: Path, model: list[str], db: Path, server: ScriptedServer, arguments: list[str], said: str
) -> None:
    (folder / "notes.txt").write_text("buy milk", encoding="utf-8")
    (folder / "play.md").write_text("- Be polite.", encoding="utf-8")
    done = run("test", *model, *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert server.requests == []


def test_a_book_without_cases_says_so(run: Run, model: list[str], store: Path, server: ScriptedServer) -> None:
    done = run("test", *model)
    assert done.code == 0
    assert done.out.splitlines()[0] == "no cases to test"
    assert "unproven" in done.out
    assert server.requests == []


def test_a_real_process_prints_tables_and_its_exit_code(folder: Path, model: list[str], db: Path) -> None:
    with Skillbook.open(db) as book:
        book.add_skill("times", HARMFUL)
    done = ace("skillbook", "test", "skills.db", *model, "--workers", "3", folder=folder)
    assert done.code == 1
    assert TIDE.id in done.out and "failing" in done.out
    code, screen = at_a_terminal(folder, "test", "skills.db", *model)
    assert code == 1
    assert "┃" in screen and TIDE.id in screen


def waiting(folder: Path, server: ScriptedServer, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(ACE), "skillbook", "test", "--model", "openai/scripted", "--api-base", server.api_base, *arguments],
        cwd=folder,
        env=command_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_notes_what_is_there(folder: Path, db: Path) -> None:
    with Skillbook.open(db) as book:
        sums = [SkillCase.make(f"What is 2 + 2? {number}", CaseCheck("numeric", "4")) for number in range(30)]
        book.put_cases("sums-00003", sums)
    with ScriptedServer(slow) as server:
        process = waiting(folder, server)
        while asked(server) < 3:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert "Ctrl-C again" in err and "--changed" in err.splitlines()[-1]
    results = [case.last_result for case in cases_in(db)]
    assert 0 < results.count("passed") < len(results) and set(results) == {"passed", "not_run"}
    assert "not run" in out.splitlines()[0]


def test_a_killed_test_pays_for_no_kept_answer_twice(folder: Path, run: Run, db: Path) -> None:
    with Skillbook.open(db) as book:
        sums = [SkillCase.make(f"What is 2 + 2? {number}", CaseCheck("numeric", "4")) for number in range(12)]
        book.put_cases("sums-00003", sums)
    with ScriptedServer(slow) as server:
        process = waiting(folder, server, "--answers", "answers.jsonl")
        while asked(server) < 5:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.kill()
        process.communicate()
        kept = len((folder / "answers.jsonl").read_text(encoding="utf-8").splitlines())
        assert kept >= 3
        server.wait_until_idle()
        server.clear()
        done = run("test", "--answers", "answers.jsonl", "--model", "openai/scripted", "--api-base", server.api_base)
        assert done.code == 0
        assert asked(server) == 15 - kept
    assert {case.last_result for case in cases_in(db)} == {"passed"}


def test_several_tests_at_once_and_a_change_beside_them_lose_nothing(folder: Path, db: Path) -> None:
    with ScriptedServer(slow) as server:
        processes = [waiting(folder, server) for _ in range(3)]
        while asked(server) < 3:
            time.sleep(0.01)
        with Skillbook.open(db) as book:
            book.remove_skill("contracts-00002")
            book.add_skill("manners", "Say thanks.")
        ends = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], ends
    assert list(contents(db)) == ["times-00001", "sums-00003", "manners-00004", "manners-00005"]
    assert {case.last_result for case in cases_in(db)} == {"passed"}


def test_a_limit_of_cost_ends_the_test(run: Run, model: list[str], db: Path, server: ScriptedServer) -> None:
    refused = run("test", *model, "--max-cost", "1")
    assert refused.code == 2 and "--max-cost" in refused.err
    priced = ["--model", "openai/gpt-4o-mini", *model[2:]]  # litellm knows its price
    done = run("test", *priced, "--max-cost", "0.000001")
    assert done.code == 1
    assert asked(server) == 1
    assert "limit of cost" in done.err and "2 not run" in done.out


def test_unneeded_skills_are_pruned_as_one_version_with_the_evidence(run: Run, model: list[str], db: Path) -> None:
    before = contents(db)
    dry = run("prune", "--unneeded", "--dry-run", "--json", *model).data
    assert [skill["id"] for skill in dry["skills"]] == ["sums-00003"]
    assert dry["skills"][0]["reason"] == "1 case passed without skills with openai/scripted"
    assert contents(db) == before
    asking = run("prune", "--unneeded", *model)
    assert asking.code == 0 and "--yes" in asking.err and contents(db) == before
    done = run("prune", "--unneeded", "--yes", *model)
    assert done.code == 0
    assert "`ace skillbook rollback 4` undoes this" in done.out
    assert list(contents(db)) == ["times-00001", "contracts-00002", "manners-00004"]
    blamed = run("blame", "sums-00003").out
    assert "passed without skills with openai/scripted" in blamed and "What is 2 + 2? -> 4" in blamed
    assert run("test", *model).code == 0
    run("rollback", "4", "--yes")
    assert contents(db) == before


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 4), (b"y\n", 3)])
def test_prune_asks_before_it_removes_what_is_unneeded(
    folder: Path, model: list[str], db: Path, answer: bytes, left: int
) -> None:
    code, screen = at_a_terminal(folder, "prune", "--unneeded", *model, answer=answer)
    assert code == 0
    assert "sums-00003" in screen and "[y/N]" in screen
    assert len(contents(db)) == left


def test_prune_takes_the_options_of_the_model_only_with_unneeded(run: Run, model: list[str], db: Path) -> None:
    done = run("prune", *model)
    assert done.code == 2
    assert "--unneeded" in done.err


def test_cases_are_added_shown_edited_and_removed_by_hand(run: Run, folder: Path, location: str) -> None:
    where = ["--skillbook", location]
    added = run(
        "add", "tides", "Tides turn twice.", "--case", "How often? => 2", "--case", "A => B? => yes", *where, "--json"
    )
    skill = added.data["skill"]
    assert [case["question"] for case in skill["cases"]] == ["How often?", "A => B?"]
    assert [case["expected"] for case in skill["cases"]] == ["2", "yes"]
    assert skill["cases"][0]["check"] == {"kind": "numeric", "value": "2"}
    ids = [case["id"] for case in skill["cases"]]
    shown = run("show", skill["id"], *where)
    assert all(text in shown.out for text in (*ids, "How often?", "Proof: unproven"))
    edited = run(
        "edit", skill["id"], "--case", "How often a day? => 2 times", "--remove-case", ids[0], *where, "--json"
    )
    assert [case["question"] for case in edited.data["skill"]["cases"]] == ["A => B?", "How often a day?"]
    assert edited.data["is_changed"]
    again = run("edit", skill["id"], "--case", "How often a day? => 2 times", *where, "--json")
    assert not again.data["is_changed"]
    unknown = run("edit", skill["id"], "--remove-case", "nothing", *where)
    assert unknown.code == 2
    assert "--remove-case" in unknown.err and ids[1] in unknown.err


def test_the_command_that_undoes_an_edit_of_cases_does_so(run: Run, folder: Path) -> None:
    run("add", "tides", "Tides turn twice.", "--case", "How often? => 2", "--skillbook", "skills.json")
    before = run("show", "--json", "--skillbook", "skills.json").data["skills"][0]["cases"]
    done = run(
        "edit",
        "tides-00001",
        "--case",
        "What? => Water",
        "--remove-case",
        before[0]["id"],
        "--json",
        "--skillbook",
        "skills.json",
    )
    assert run(*shlex.split(done.data["undo"])[2:]).code == 0
    assert run("show", "--json", "--skillbook", "skills.json").data["skills"][0]["cases"] == before


@pytest.mark.parametrize("wrong", ["How often?", "=> 2", "How often? =>", "How often? -> 2", ""])
def test_a_case_in_another_form_is_wrong_usage_that_says_how(run: Run, db: Path, wrong: str) -> None:
    for command in (["add", "tides", "Tides turn."], ["edit", "times-00001"]):
        done = run(*command, "--case", wrong)
        assert done.code == 2
        assert '"question => answer"' in done.err
    assert len(contents(db)) == 4


def test_cases_are_exported_as_samples_that_eval_reads(
    run: Run, here: Run, folder: Path, model: list[str], location: str
) -> None:
    done = run("export", "cases.jsonl", "--skillbook", location)
    assert done.out.startswith("exported 3 samples")
    lines = [json.loads(line) for line in (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {
        "id": TIDE.id,
        "question": TIDE.question,
        "ground_truth": "14h30",
        "skills": ["times-00001"],
    }
    assert run("export", "-", "--format", "samples", "--skillbook", location).out == (
        (folder / "cases.jsonl").read_text(encoding="utf-8")
    )
    measured = here("eval", "cases.jsonl", "--environment", "strict", "--skillbook", location, *model)
    assert measured.code == 0, measured.err
    assert measured.out.startswith("Accuracy 33.3% without skills, 100.0% with them")


def test_blame_shows_the_proof(run: Run, model: list[str], location: str) -> None:
    run("test", location, *model)
    done = run("blame", "times-00001", "--skillbook", location)
    assert done.code == 0
    assert all(text in done.out for text in (TIDE.question, "2:30 pm", "It is 14h30.", "passed", "openai/scripted"))
    proof = run("blame", "times-00001", "--skillbook", location, "--json").data["proof"]
    assert proof["state"] == "proven"
    [case] = proof["cases"]
    assert (case["before"], case["expected"], case["result"]) == ("2:30 pm", "It is 14h30.", "passed")
    assert case["model"] == "openai/scripted" and case["at"]


def test_the_list_says_which_skills_are_proven(run: Run, model: list[str], db: Path) -> None:
    run("test", *model)
    rows = {line.split()[0]: line.split()[2] for line in run("show").out.splitlines() if "-0000" in line}
    assert rows == {
        "times-00001": "proven",
        "contracts-00002": "proven",
        "sums-00003": "proven",
        "manners-00004": "unproven",
    }


def test_a_corrected_case_that_is_added_again_keeps_what_it_says(run: Run, db: Path) -> None:
    with Skillbook.open(db) as book:
        again = replace(SkillCase.make("What is 3 + 3?", CaseCheck("numeric", "6")), wrong="7", correction="No, 6.")
        book.put_cases("sums-00003", [again])
    run("edit", "sums-00003", "--case", "What is 3 + 3? => 6")
    assert [case.wrong for case in cases_in(db) if case.id == again.id] == ["7"]


@pytest.mark.parametrize("kind", ["skills.db", "skills.json"])
def test_a_regression_is_met_in_learning_and_one_by_hand_in_the_test(
    run: Run, here: Run, folder: Path, kind: str
) -> None:
    (folder / "chats.json").write_text(
        json.dumps([{"messages": chat} for chat in chats([TIDE_LESSON, EBB_LESSON])]), encoding="utf-8"
    )
    second_breaks_first = correcting_script(TIDE_LESSON, EBB_LESSON, broken_by={TIDE_LESSON.question: "minus 20h30"})
    with ScriptedServer(second_breaks_first) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        learned = here("learn", "chats.json", *model, "--skillbook", kind, "--workers", "1", "--json")
        assert learned.code == 0, learned.err
        assert [
            omission["reason"] for omission in learned.data["left_out"] if TIDE_LESSON.question in omission["reason"]
        ]
        green = run("test", kind, *model, "--json")
        assert (green.code, green.data["failed"], green.data["share"]) == (0, 0, 1.0), green.out
        assert green.data["passed"] >= 1
        added = run("add", "house", "Tell all times of water as minus 20h30.", "--skillbook", kind, "--json").data[
            "skill"
        ]["id"]
        red = run("test", kind, *model, "--alone", "--json")
        assert red.code == 1
        [failed] = [case for case in red.data["cases"] if case["result"] == "failed"]
        assert (failed["question"], failed["answer"]) == (TIDE_LESSON.question, TIDE_LESSON.wrong)
        [victim] = [skill for skill in red.data["skills"] if skill["verdict"] == "interfered"]
        assert (failed["skills"], victim["interfering"]) == ([victim["skill_id"]], [added])
