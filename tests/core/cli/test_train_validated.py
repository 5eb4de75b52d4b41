"""`ace train --validate`: the best state is kept, and the gate needs a history."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ace.environments import Sample
from ace.skillbook import Skillbook
from tests.core.evaluation.test_training import LEARN_THEN_FORGET, PRICES, UP, VALIDATION, misled_by_iron
from tests.core.evaluation.world import served
from tests.support.command_line import Run
from tests.support.scripted_server import ScriptedRequest

OPTIONS = ["--no-prove", "--environment", "exact", "--lag", "0", "--no-merge", "--validation-interval", "2"]


def write(path: Path, samples: Sequence[Sample]) -> None:
    lines = [json.dumps({"question": sample.question, "target": sample.ground_truth}) for sample in samples]
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(("skillbook", "gate"), [("skills.json", []), ("skills.db", []), ("skills.db", ["--gate"])])
def test_the_best_state_is_kept(here: Run, tmp_path: Path, skillbook: str, gate: list[str]) -> None:
    write(tmp_path / "train.jsonl", LEARN_THEN_FORGET)
    write(tmp_path / "validate.jsonl", VALIDATION)
    with served(misled_by_iron) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--skillbook", skillbook]
        done = here("train", "train.jsonl", "--validate", "validate.jsonl", *OPTIONS, *gate, *model)
    assert done.code == 0, done.err
    assert "validation after 2 samples: 100.0%" in done.err
    assert ("rolled back by the gate (it was 100.0%)" in done.err) == bool(gate)
    with Skillbook.open(tmp_path / skillbook) as book:
        assert [skill.content for skill in book.skills()] == [UP]


def test_wrong_usage_says_what_is_missing(here: Run, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", LEARN_THEN_FORGET)
    command = ["train", "train.jsonl", "--model", "openai/none", "--gate"]
    assert "give --validate FILE" in here(*command).err
    done = here(*command, "--validate", "train.jsonl", "--skillbook", "skills.json")
    assert (done.code, "needs a skillbook with a history" in done.err) == (2, True), done.err


def test_an_early_end_is_no_interruption_and_stays_when_resumed(here: Run, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", LEARN_THEN_FORGET)
    write(tmp_path / "validate.jsonl", VALIDATION)
    command = ["train", "train.jsonl", "--validate", "validate.jsonl", *OPTIONS, "--patience", "1", "--json"]
    with served(misled_by_iron) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        write(tmp_path / "train.jsonl", [*LEARN_THEN_FORGET, *LEARN_THEN_FORGET])
        first = here(*command, *model)
        asked = len(server.requests)
        again = here(*command, *model, "--resume")
        assert len(server.requests) == asked + 1, "the check of the model alone"
    assert (first.code, first.data["stopped_by"]) == (0, "early_stopping"), first.err
    assert first.data["traces"]["learned"] == 4
    assert "ended early" in first.err
    assert (again.code, again.data["stopped_by"]) == (0, "early_stopping"), again.err


def test_a_limit_that_the_first_validation_reaches_is_said(here: Run, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", LEARN_THEN_FORGET)
    write(tmp_path / "validate.jsonl", VALIDATION)
    with served() as server:
        model = ["--model", "openai/gpt-4o-mini", "--api-base", server.api_base]
        command = ["train", "train.jsonl", "--validate", "validate.jsonl", *OPTIONS, *model]
        done = here(*command, "--max-cost", "0.0001")
        assert done.code == 1
        assert "stopped during the first validation, so nothing was learned" in done.err, done.err
        assert here(*command, "--resume").code == 0
        asked = [request.text for request in server.by_role("agent")]
        assert len(asked) == len(set(asked)), "what was answered was kept"


def test_the_report_of_an_evaluation_has_the_learning_curve_and_what_learning_took(here: Run, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", LEARN_THEN_FORGET)
    write(tmp_path / "validate.jsonl", VALIDATION)
    write(tmp_path / "test.jsonl", PRICES[2:5])
    with served(misled_by_iron) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        trained = here("train", "train.jsonl", "--validate", "validate.jsonl", *OPTIONS, *model)
        assert trained.code == 0, trained.err
        of_learning = [request for request in server.requests if request.role != "agent"]
        expected = sum(request.input_tokens for request in of_learning if request.role)
        server.clear()
        done = here("eval", "test.jsonl", "--environment", "exact", *model, "--report", "out")
        assert done.code == 0, done.err
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert [point["samples"] for point in report["training"]] == [0, 2, 4]
    assert report["training_costs"]["learning"]["calls"] == 3 * len(LEARN_THEN_FORGET)
    assert report["training_costs"]["learning"]["input_tokens"] > expected
    for name in ("report.html", "report.md"):
        assert "12 calls" in (tmp_path / "out" / name).read_text(encoding="utf-8")
    assert "<svg" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_what_the_guard_leaves_out_is_learned_if_it_is_allowed(here: Run, tmp_path: Path) -> None:
    answer = "Round half to even and give two decimals"

    def copies(request: ScriptedRequest) -> Mapping[str, Any] | None:
        operations = [{"type": "ADD", "section": "rounding", "content": f"Always: {answer}."}]
        return {"reasoning": "", "operations": operations} if request.role == "skill_manager" else None

    write(tmp_path / "train.jsonl", [Sample(PRICES[0].question, ground_truth=answer)])
    with served(copies) as server:
        command = ["train", "train.jsonl", "--no-prove", "--json"]
        command += ["--model", "openai/scripted", "--api-base", server.api_base]
        kept_out = here(*command, "--skillbook", "a.db")
        assert (kept_out.data["skills"]["added"], kept_out.data["skills"]["skipped"]) == (0, 1)
        allowed = here(*command, "--skillbook", "b.db", "--allow", "copied_answer")
        assert (allowed.data["skills"]["added"], allowed.data["skills"]["skipped"]) == (1, 0)
    assert here(*command, "--allow", "everything").code == 2
