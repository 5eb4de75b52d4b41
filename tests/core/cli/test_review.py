"""`ace review`: what is pending, and the decisions about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.skill import InsightSource
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.command_line import Run

FIRST, SECOND, ACTIVE = "sums-00001", "sums-00002", "sums-00003"


@pytest.fixture(params=["skills.db", "skills.json"])
def location(request: pytest.FixtureRequest, tmp_path: Path, here: Run) -> str:
    book = Skillbook()
    source = InsightSource("runs.jsonl#3", "How long is the pier?", evidence="person")
    operations = [
        UpdateOperation("ADD", "sums", "Name the unit.", insight_source=source, pending="its proof failed"),
        UpdateOperation("ADD", "sums", "Always answer 7.", pending="no one judged it"),
        UpdateOperation("ADD", "sums", "Add slowly."),
    ]
    book.apply_update(UpdateBatch("", operations))
    book.save_to_file(tmp_path / str(request.param))
    return str(request.param)


def prompt_of(location: str) -> str:
    with Skillbook.open(location) as book:
        return book.as_prompt()


def test_the_pending_skills_are_listed_with_reason_evidence_and_origin(location: str, here: Run) -> None:
    done = here("review", location)
    assert done.code == 0, done.err
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[0] == f"2 pending skills in {location}"
    assert f"{FIRST} Name the unit. its proof failed person runs.jsonl#3" in lines
    assert f"{SECOND} Always answer 7. no one judged it none -" in lines
    assert "Add slowly." not in done.out


def test_the_list_is_also_json(location: str, here: Run) -> None:
    data = here("review", location, "--json").data
    assert (data["command"], data["skillbook"]) == ("review", location)
    [first, second] = data["pending"]
    assert (first["id"], first["reason"], first["evidences"]) == (FIRST, "its proof failed", ["person"])
    assert first["sources"][0]["evidence"] == "person"
    assert (second["status"], second["evidences"]) == ("pending", [])


def test_an_accepted_skill_is_shown_to_agents(location: str, here: Run) -> None:
    done = here("review", location, "--accept", FIRST)
    assert done.code == 0, done.err
    assert done.out.startswith(f"accepted [{FIRST}]: Name the unit.")
    assert "Name the unit." in prompt_of(location) and "answer 7" not in prompt_of(location)
    assert [skill["id"] for skill in here("review", location, "--json").data["pending"]] == [SECOND]


def test_a_rejected_skill_is_listed_with_the_reason(location: str, here: Run) -> None:
    done = here("review", location, "--reject", SECOND, "--because", "One customer only.", "--json")
    assert done.code == 0, done.err
    assert [(skill["status"], skill["reason"]) for skill in done.data["skills"]] == [("invalid", "One customer only.")]
    [skill] = here("review", location, "--rejected", "--json").data["rejected"]
    assert (skill["id"], skill["reason"]) == (SECOND, "One customer only.")
    assert "One customer only." in here("review", location, "--rejected").out
    assert here("review", location, "--accept", SECOND).code == 0
    assert "Always answer 7." in prompt_of(location)


def test_both_decisions_at_once_are_one_version_that_can_be_undone(tmp_path: Path, here: Run) -> None:
    with Skillbook.open("skills.db") as book:
        for content in ("one", "two"):
            book.apply_update(UpdateBatch("", [UpdateOperation("ADD", "sums", content, pending="why not")]))
    done = here("review", "--accept", FIRST, "--reject", SECOND, "--because", "wrong")
    assert "skills.db is at version 3; `ace skillbook rollback 2` undoes this" in done.out
    assert "1 accepted, 1 rejected" in here("skillbook", "log").out
    assert here("skillbook", "rollback", "2", "--yes").code == 0
    assert len(here("review", "--json").data["pending"]) == 2


def test_nothing_pending(tmp_path: Path, here: Run) -> None:
    Skillbook().save_to_file("skills.json")
    assert here("review", "skills.json").out == "No skill in skills.json is pending.\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--accept", "sums-00009"), "has no skill 'sums-00009'"),
        (("--accept", FIRST, "--accept", ACTIVE), f"the skill '{ACTIVE}' is neither pending nor rejected, so nothing"),
        (("--reject", FIRST), "--reject requires --because with the reason"),
        (("--accept", FIRST, "--because", "x"), "--because is the reason for --reject, which is missing"),
        (("--accept", FIRST, "--reject", FIRST, "--because", "x"), "cannot be both accepted and rejected, so nothing"),
    ],
    ids=["unknown", "active", "no-reason", "no-rejection", "both"],
)
def test_decisions_that_are_not_possible_change_nothing(
    location: str, here: Run, options: tuple[str, ...], problem: str
) -> None:
    before = here("review", location, "--json").out
    done = here("review", location, *options)
    assert done.code == 2 and problem in done.err
    assert here("review", location, "--json").out == before


def test_show_and_pin_say_that_a_skill_is_pending(location: str, here: Run) -> None:
    shown = here("skillbook", "show", FIRST, "--skillbook", location).out
    assert "pending" in shown and "its proof failed" in shown
    done = here("skillbook", "pin", FIRST, "--skillbook", location)
    assert f"the skill '{FIRST}' is pending; `ace review --accept {FIRST}` makes it active" in done.err
