"""`ace eval`: without skills and with them, over HTTP, with reports and exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ace.skill import InsightSource
from ace.skillbook import Skillbook
from tests.core.evaluation.world import by_kind, served
from tests.support.command_line import Run, ace
from tests.support.scripted_server import ScriptedServer

UP = "Round every price up to whole euros."


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with served() as server:
        yield server


@pytest.fixture
def model(server: ScriptedServer, tmp_path: Path) -> list[str]:
    lines = [json.dumps({"id": s.id, "question": s.question, "target": s.ground_truth}) for s in by_kind("price")[:6]]
    (tmp_path / "samples.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("conventions", UP)
        book.add_skill("conventions", "Never cited.")
    return ["--model", "openai/scripted", "--api-base", server.api_base, "--environment", "exact"]


def test_the_difference_is_shown_and_the_reports_are_written(tmp_path: Path, model: list[str]) -> None:
    done = ace("eval", "samples.jsonl", *model, "--report", "out", "--workers", "2", folder=tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("Accuracy 0.0% without skills, 100.0% with them")
    assert "McNemar, exact" in done.out
    assert done.out.count("gained") == 6
    assert "Shown and never cited: conventions-00002" in done.out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "report.json", "report.md"]
    with Skillbook.open(tmp_path / "skills.db") as book:
        assert book.version == 2


def test_json_has_everything_and_kept_answers_are_not_asked_again(
    here: Run, model: list[str], server: ScriptedServer
) -> None:
    command = ["eval", "samples.jsonl", *model, "--json", "--answers", "answers.jsonl", "--leave-one-out"]
    first = here(*command)
    asked = len(server.by_role("agent"))
    second = here(*command)
    assert (first.code, second.code) == (0, 0)
    assert first.data["schema"] == 1
    assert first.data == second.data
    assert len(server.by_role("agent")) == asked == 6 * 4  # without skills, with both, and without each of them
    effects = {omission["content"]: omission["effect"]["value"] for omission in first.data["left_out"]}
    assert effects == {UP: 1.0, "Never cited.": 0.0}


def test_a_strict_environment_does_not_take_a_longer_number_for_the_right_one(
    here: Run, tmp_path: Path, server: ScriptedServer
) -> None:
    lines = [json.dumps({"question": s.question, "target": str(s.ground_truth)[:1]}) for s in by_kind("price")[:1]]
    (tmp_path / "samples.jsonl").write_text("\n".join(lines), encoding="utf-8")
    model = ["--model", "openai/scripted", "--api-base", server.api_base]
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("conventions", UP)  # so 13 is answered, and 1 is right
    said = {name: here("eval", "samples.jsonl", *model, "--environment", name).out for name in ("contains", "strict")}
    assert said["contains"].startswith("Accuracy 100.0% without skills, 100.0% with them")
    assert said["strict"].startswith("Accuracy 0.0% without skills, 0.0% with them")


def test_what_cannot_be_measured_by_is_wrong_usage(here: Run, tmp_path: Path, model: list[str]) -> None:
    (tmp_path / "samples.jsonl").write_text('{"question": "what?"}\n', encoding="utf-8")
    done = here("eval", "samples.jsonl", *model)
    assert done.code == 2
    assert "samples.jsonl#1: no right answer" in done.err
    missing = here("eval", "samples.jsonl", *model, "--skillbook", "none.db")
    assert missing.code == 2


@pytest.mark.parametrize(
    "wrong", [("--limit", "0"), ("--limit", "-1"), ("--repeats", "0"), ("--max-cost", "0")], ids=" ".join
)
def test_a_number_that_makes_no_sense_is_named(here: Run, wrong: tuple[str, str]) -> None:
    done = here("eval", "samples.jsonl", *wrong)
    assert (done.code, done.out) == (2, "")
    assert wrong[0] in done.err and f"got {wrong[1]}" in done.err


def test_answers_that_could_not_be_kept_are_not_asked_for(here: Run, server: ScriptedServer, model: list[str]) -> None:
    done = here("eval", "samples.jsonl", *model, "--answers", "nowhere/answers.jsonl")
    assert (done.code, done.err) == (2, "ace: --answers: no such folder: 'nowhere'; create it first\n")
    assert not server.requests


def test_what_each_skill_is_worth_and_how_far_it_is_are_shown(here: Run, model: list[str]) -> None:
    command = ["eval", "samples.jsonl", *model, "--leave-one-out", "--answers", "answers.jsonl"]
    first, second = (here(*command) for _ in range(2))
    for done in (first, second):
        assert "Accuracy without each skill:" in done.out
        [row] = [line for line in done.out.splitlines() if line.startswith("conventions-00001  +")]
        assert row.split()[:4] == ["conventions-00001", "+100.0", "[+44.8,", "+100.0]"]
        assert row.endswith(UP)
        assert done.err.splitlines()[-1] == "24 of 24 answers"
    assert "answers" not in here(*command, "--json").err


def test_files_that_cannot_be_used_are_named_before_anything_is_asked(
    here: Run, tmp_path: Path, model: list[str], server: ScriptedServer
) -> None:
    (tmp_path / "notes.txt").write_text("buy milk", encoding="utf-8")
    wrong = {
        "--answers": "--answers: notes.txt, line 1: this is not a judged answer",
        "--report": "notes.txt: Not a directory",
    }
    for option, said in wrong.items():
        done = here("eval", "samples.jsonl", *model, option, "notes.txt")
        assert (done.code, done.out) == (2, "")
        assert said in done.err
    (tmp_path / "skills.db.validation.jsonl").write_text("buy milk", encoding="utf-8")
    done = here("eval", "samples.jsonl", *model)
    assert done.code == 2
    assert "skills.db.validation.jsonl, line 1: this is not a point of a training" in done.err
    assert server.requests == []


def test_a_limit_of_cost_is_refused_where_no_price_is_known(
    here: Run, tmp_path: Path, model: list[str], server: ScriptedServer
) -> None:
    done = here("eval", "samples.jsonl", *model, "--max-cost", "1")
    assert done.code == 2
    assert "--max-cost cannot be enforced, because the price of 'openai/scripted' is unknown" in done.err
    assert server.by_role("agent") == []


def test_a_limit_of_cost_holds_for_all_rounds_together(here: Run, model: list[str], server: ScriptedServer) -> None:
    priced = ["--model", "openai/gpt-4o-mini", *model[2:]]  # litellm knows its price
    command = ["eval", "samples.jsonl", *priced, "--answers", "answers.jsonl", "--leave-one-out"]
    stopped = [here(*command, "--max-cost", most) for most in ("0.0005", "0.0002")]
    assert {done.code for done in stopped} == {1}
    assert "answers without conventions-00001 (max_cost); the same command continues where it stopped" in stopped[0].err
    assert "answers without conventions-00002 (max_cost)" in stopped[1].err
    done = here(*command, "--json")
    assert done.code == 0, done.err
    assert len(done.data["left_out"]) == 2
    assert len(server.by_role("agent")) == 6 * 4


def test_skillbooks_of_several_orders_are_measured_together(here: Run, tmp_path: Path, model: list[str]) -> None:
    with Skillbook.open(tmp_path / "other.json") as book:
        book.add_skill("conventions", "Be polite.")
        book.save_to_file(tmp_path / "other.json")
    books = ["--skillbook", "skills.db", "--skillbook", "other.json"]
    done = here("eval", "samples.jsonl", *model, *books, "--report", "out")
    assert done.code == 0, done.err
    assert done.out.startswith("Accuracy 0.0% without skills, 50.0% with them")
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["runs"] == {"with skills.db": 1.0, "with other.json": 0.0}
    assert here("eval", "samples.jsonl", *model, *books, "--leave-one-out").code == 2


def test_a_sample_that_taught_a_skill_is_named(here: Run, tmp_path: Path, model: list[str]) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        source = InsightSource(trace_id="t", sample_question=by_kind("price")[0].question)
        book.add_skill("conventions", "Learned.", insight_source=source)
    done = here("eval", "samples.jsonl", *model)
    assert done.code == 0
    assert "1 of 6 samples taught a skill of 'skills.db', such as samples.jsonl#1:price 12.30" in done.err
