"""`ace skillbook dedup --model`: similar skills are judged, once, and one rollback takes everything back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace.skill import CaseCheck, SkillCase
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


HIGH, LOW = "Write high water as 14h30.", "Write low water as 14h30."
WATER = "Write high and low water as 14h30."
TIDES = ["dedup", "--embedding-provider", "lexical", "--threshold", "0.1"]


def tide_case(name: str) -> SkillCase:
    return SkillCase.make(f"When is {name} water?", CaseCheck("contains", "14h30"), wrong="2:30 pm")


def harbour(merged: str, wrong_for: str = "") -> Any:
    """A model that merges what is about water, and answers what the skills tell, except for one kind of water."""

    def script(request: ScriptedRequest) -> Any:
        if "Answer with the word: ready" in request.text:
            return "ready"
        if request.role == "agent":
            is_wrong = wrong_for and f"When is {wrong_for} water?" in request.text and merged in request.text
            return {"reasoning": "", "final_answer": "2:30 pm" if is_wrong else "14h30"}
        both = {"source_ids": ["tides-00001", "tides-00002"], "keep_id": "tides-00001", "merged_content": merged}
        return {"reasoning": "", "consolidation_operations": [{"type": "MERGE", **both}]}

    return script


@pytest.fixture
def tides(folder: Path) -> Path:
    with Skillbook.open("skills.db") as book:
        for content, name in ((HIGH, "high"), (LOW, "low")):
            book.add_skill("tides", content, cases=[tide_case(name)])
    return folder / "skills.db"


def test_the_model_proves_the_merge_that_it_wants(tides: Path, run: Run) -> None:
    with ScriptedServer(harbour(WATER)) as server:
        done = run(*TIDES, "--model", "openai/scripted", "--api-base", server.api_base)
        assert len(server.by_role("agent")) == 2
    assert done.code == 0, done.err
    with Skillbook.open(tides) as book:
        [kept] = book.skills()
    assert (kept.content, kept.proof) == (WATER, "proven")
    assert {case.question for case in kept.cases} == {tide_case("high").question, tide_case("low").question}


def test_a_merge_that_breaks_a_case_is_refused_with_the_reason(tides: Path, run: Run) -> None:
    with ScriptedServer(harbour(WATER, wrong_for="low")) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        done = run(*TIDES, *model)
        reason = f"case {tide_case('low').id} ('When is low water?') would be answered '2:30 pm'"
        assert done.code == 0, done.err
        assert "merged: skipped" in done.out and reason in " ".join(done.out.split())
        asked = len(server.requests)
        assert run(*TIDES, *model, "--json").data["applied"] == []
        assert len(server.requests) == asked + 1, "only whether the model answers"
    with Skillbook.open(tides) as book:
        assert [skill.content for skill in book.skills()] == [HIGH, LOW]
        decision = book.get_similarity_decision("tides-00001", "tides-00002")
    assert decision is not None and decision.reasoning == reason


def test_without_a_model_skills_with_cases_are_merged_only_if_they_are_one_text(tides: Path, run: Run) -> None:
    with Skillbook.open(tides) as book:
        book.add_skill("tides", "Write the high water as 14h30", cases=[tide_case("spring")])
    done = run(*TIDES, "--json")
    assert done.data["applied"] == []
    assert "not proven" in done.data["skipped"][0]["reason"]
    listed = run(*TIDES).out
    assert listed.count("tides-00003") == 2, "once as skipped, once in its group with the other similar skill"
    with Skillbook.open(tides) as book:
        book.update_skill("tides-00003", content="write high  water as 14h30")
    assert run(*TIDES, "--json").data["applied"][0]["type"] == "MERGE"
    with Skillbook.open(tides) as book:
        assert [len(skill.cases) for skill in book.skills()] == [2, 1]
