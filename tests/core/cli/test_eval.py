"""`ace eval`: without skills and with them, over HTTP, with reports and exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.core.evaluation.world import by_kind, served
from tests.support.command_line import ace
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
    tmp_path: Path, model: list[str], server: ScriptedServer
) -> None:
    command = ["eval", "samples.jsonl", *model, "--json", "--answers", "answers.jsonl", "--leave-one-out"]
    first = ace(*command, folder=tmp_path)
    asked = len(server.by_role("agent"))
    second = ace(*command, folder=tmp_path)
    assert (first.code, second.code) == (0, 0)
    assert first.data["schema"] == 1
    assert first.data == second.data
    assert len(server.by_role("agent")) == asked == 6 * 4
    effects = {each["content"]: each["effect"]["value"] for each in first.data["left_out"]}
    assert effects == {UP: 1.0, "Never cited.": 0.0}


def test_what_cannot_be_measured_by_is_wrong_usage(tmp_path: Path, model: list[str]) -> None:
    (tmp_path / "samples.jsonl").write_text('{"question": "what?"}\n', encoding="utf-8")
    done = ace("eval", "samples.jsonl", *model, folder=tmp_path)
    assert done.code == 2
    assert "samples.jsonl#1: there is no right answer" in done.err
    missing = ace("eval", "samples.jsonl", *model, "--skillbook", "none.db", folder=tmp_path)
    assert missing.code == 2
