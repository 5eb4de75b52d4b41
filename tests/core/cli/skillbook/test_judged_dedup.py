"""`ace skillbook dedup --model`: similar skills are judged, once, and one rollback takes everything back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import Run
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

LENGTHS = "Always check the units before you add two lengths."
WEIGHTS = "Always check the units before you add two weights."
MERGED = "Always check the units before you add."
RIVERS = ("Name the longest river of the country.", "Name the longest river of the continent.")
DEDUP = ["dedup", "--embedding-provider", "lexical", "--threshold", "0.5"]


def judge(request: ScriptedRequest) -> Any:
    """Merge what is about units, keep apart what is about rivers."""
    if "Answer with the word: ready" in request.text:
        return "ready"
    operations: list[dict[str, Any]] = []
    if LENGTHS in request.text and WEIGHTS in request.text:
        merged = {"keep_id": "maths-00001", "merged_content": MERGED}
        operations.append({"type": "MERGE", "source_ids": ["maths-00001", "maths-00002"], **merged})
    if all(text in request.text for text in RIVERS):
        operations.append({"type": "KEEP", "skill_ids": ["rivers-00003", "rivers-00004"], "reasoning": "scope"})
    return {"reasoning": "", "consolidation_operations": operations}


def book_in(path: Path) -> None:
    with Skillbook.open(path) as book:
        for content in (LENGTHS, WEIGHTS):
            book.add_skill("maths", content, metadata={"helpful": 2})
        for content in RIVERS:
            book.add_skill("rivers", content)
        if path.suffix == ".json":
            book.save_to_file(path)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(judge) as server:
        yield server


@pytest.fixture
def model(server: ScriptedServer) -> list[str]:
    return ["--model", "openai/scripted", "--api-base", server.api_base]


def test_similar_skills_are_judged_in_one_call_and_one_rollback_takes_it_back(
    folder: Path, run: Run, model: list[str], server: ScriptedServer
) -> None:
    book_in(folder / "skills.db")
    done = run(*DEDUP, *model)
    assert done.code == 0, done.err
    assert len(server.requests) == 2, "whether it answers, and one question"
    with Skillbook.open("skills.db") as book:
        assert [skill.content for skill in book.skills()] == [MERGED, *RIVERS]
        assert book.skills()[0].helpful == 4
    again = run(*DEDUP, *model, "--json")
    assert (again.data["applied"], again.data["undecided"]) == ([], [])
    assert len(server.requests) == 3, "what is kept apart is not asked about again"
    assert run("rollback", "4", "--yes").code == 0
    with Skillbook.open("skills.db") as book:
        assert [skill.content for skill in book.skills()] == [LENGTHS, WEIGHTS, *RIVERS]
        assert not book.has_keep_decision("rivers-00003", "rivers-00004")


def test_a_book_of_another_framework_is_judged_too(folder: Path, run: Run, model: list[str]) -> None:
    skill = {"section": "maths", "helpful": 2, "harmful": 0, "neutral": 0}
    skills = {f"maths-0000{place}": {**skill, "id": f"maths-0000{place}", "content": content}
              for place, content in ((1, LENGTHS), (2, WEIGHTS))}  # fmt: skip
    foreign = {"skills": skills, "sections": {"maths": list(skills)}, "next_id": 3}
    (folder / "theirs.json").write_text(json.dumps(foreign), encoding="utf-8")
    done = run(*DEDUP, *model, "--skillbook", "theirs.json")
    assert done.code == 0, done.err
    book = Skillbook.load_from_file("theirs.json")
    assert [(skill.content, skill.helpful) for skill in book.skills()] == [(MERGED, 4)]
    assert len(book.skills(include_invalid=True)) == 2


def test_a_model_that_goes_away_costs_no_skill(folder: Path, run: Run) -> None:
    def goes_away(request: ScriptedRequest) -> Any:
        return "ready" if "Answer with the word: ready" in request.text else HttpError(400, "gone")

    book_in(folder / "skills.json")
    with ScriptedServer(goes_away) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        done = run(*DEDUP, *model, "--skillbook", "skills.json")
    assert done.code == 1
    assert ": no judgement: model 'openai/scripted' gave no answer" in done.err
    assert len(Skillbook.load_from_file("skills.json")) == 4
