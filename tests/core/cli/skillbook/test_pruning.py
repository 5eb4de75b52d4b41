"""`ace skillbook prune` and `ace skillbook dedup`."""

from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.core.cli.skillbook.conftest import contents
from tests.core.cli.skillbook.test_command import at_a_terminal
from tests.support.command_line import Run
from tests.support.json_shape import misfits

PRUNED = {"id": str, "section": str, "content": str, "reason": str, "evidence": str, "is_removed_for_good": bool}
PRUNE = {
    "schema": int,
    "command": str,
    "skillbook": str,
    "version": int | None,
    "is_done": bool,
    "skills": [PRUNED],
    "undo": str,
}
DEDUP = {
    "schema": int,
    "command": str,
    "skillbook": str,
    "version": int | None,
    "dry_run": bool,
    "applied": [dict],
    "skipped": [{"operation": dict, "reason": str}],
    "undecided": [[str]],
    "problem": str,
}


def test_without_yes_it_only_shows_what_would_go(store: Path, run: Run) -> None:
    done = run("prune")
    assert done.code == 0
    assert "maths-00002" in done.out and "harmful 2, helpful 0" in done.out
    assert "--yes" in done.err
    data = run("prune", "--json").data
    assert misfits(data, PRUNE) == []
    assert (data["is_done"], data["version"]) == (False, 5)
    assert len(contents(store)) == 4


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["maths-00002"]),
        (["--no-harmful"], []),
        (["--unhelpful-uses", "2"], ["maths-00002", "maths-00003"]),
        (["--unhelpful-uses", "3"], ["maths-00002"]),
        (["--unused-days", "31"], ["maths-00002", "geography-00004"]),
        (["--unused-days", "32"], ["maths-00002"]),
        (["--no-harmful", "--unused-days", "0"], ["geography-00004"]),
    ],
)
def test_the_rules(store: Path, run: Run, arguments: list[str], expected: list[str]) -> None:
    assert [skill["id"] for skill in run("prune", *arguments, "--json").data["skills"]] == expected


def test_it_is_soft_one_version_and_one_rollback_undoes_it(store: Path, run: Run) -> None:
    before = contents(store)
    done = run("prune", "--unhelpful-uses", "1", "--unused-days", "1", "--yes")
    assert "`ace skillbook rollback 5` undoes this" in done.out
    assert list(contents(store)) == ["maths-00001"]
    assert len(contents(store, with_invalid=True)) == 4
    assert run("log", "--json").data["version"] == 6
    run("rollback", "5", "--yes")
    assert contents(store) == before


def test_invalid_skills_leave_for_good_when_that_was_said(store: Path, run: Run) -> None:
    run("prune", "--yes")
    assert run("prune", "--yes", "--json").data["skills"] == []
    data = run("prune", "--invalid", "--yes", "--json").data
    assert [(skill["id"], skill["is_removed_for_good"]) for skill in data["skills"]] == [("maths-00002", True)]
    assert "maths-00002" not in contents(store, with_invalid=True)
    run("rollback", "6", "--yes")
    assert "maths-00002" in contents(store, with_invalid=True)


def test_a_json_book_is_pruned_in_its_file(json_book: Path, run: Run) -> None:
    assert run("prune", "--yes", "--skillbook", "skills.json").code == 0
    assert list(contents(json_book)) == ["maths-00001"]
    assert len(contents(json_book, with_invalid=True)) == 2


def test_skills_of_the_same_wording_become_one(store: Path, run: Run) -> None:
    dry = run("dedup", "--dry-run", "--embedding-provider", "lexical", "--json").data
    assert misfits(dry, DEDUP) == []
    assert dry["applied"][0]["skill_ids"] == ["maths-00001", "maths-00003"]
    assert len(contents(store)) == 4
    done = run("dedup", "--embedding-provider", "lexical")
    assert done.code == 0 and "maths-00001, maths-00003" in done.out and "rollback 5" in done.out
    with Skillbook.open(store) as book:
        kept, merged = book.get_skill("maths-00001"), book.get_skill("maths-00003")
    assert kept is not None and (kept.helpful, kept.neutral) == (4, 2)
    assert merged is not None and merged.merged_into == "maths-00001"
    run("rollback", "5", "--yes")
    assert len(contents(store)) == 4


def test_skills_that_are_only_similar_are_listed_and_stay(folder: Path, run: Run) -> None:
    book = Skillbook()
    book.add_skill("maths", "Always check the units before you add two lengths.")
    book.add_skill("maths", "Always check the units before you add two weights.")
    book.save_to_file("skills.json")
    before = (folder / "skills.json").read_bytes()
    arguments = ["dedup", "--embedding-provider", "lexical", "--threshold", "0.5", "--skillbook", "skills.json"]
    assert run(*arguments, "--json").data["undecided"] == [["maths-00001", "maths-00002"]]
    assert "maths-00001, maths-00002" in run(*arguments).out
    assert (folder / "skills.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["prune", "--unused-days", "-1"], "--unused-days"),
        (["prune", "--unhelpful-uses", "0"], "--unhelpful-uses"),
        (["prune", "--skillbook", "play.txt"], "ace skillbook import play.txt"),
        (["dedup", "--skillbook", "play.txt"], "ace skillbook import play.txt"),
        (["dedup", "--threshold", "2"], "between 0 and 1"),
        (["dedup", "--rule", "shortest"], "--rule"),
        (["dedup", "--embedding-provider", "nobody"], "'nobody'"),
        (["dedup", "--skillbook", "nope.db"], "nope.db"),
    ],
)
def test_mistakes_are_one_sentence(store: Path, playbook: Path, run: Run, arguments: list[str], named: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1 and named in done.err


def test_what_is_shown_planned_and_done_uses_the_same_words(store: Path, run: Run) -> None:
    planned = run("prune", "--dry-run")
    assert "will be removed" in planned.out and "nothing was changed: this was a dry run" in planned.err
    assert run("prune", "--dry-run", "--yes", "--json").data["is_done"] is False
    assert len(contents(store)) == 4
    done = run("prune", "--yes")
    assert " removed  Guess quickly." in done.out and "will be" not in done.out
    assert "1 removed" in run("log", "--limit", "1").out
    deleted = run("prune", "--removed", "--yes")
    assert " deleted  Guess quickly." in deleted.out and "was removed before" in deleted.out
    assert "1 deleted" in run("log", "--limit", "1").out


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 4), (b"y\n", 3)])
def test_at_a_terminal_it_asks_after_showing_the_skills(folder: Path, store: Path, answer: bytes, left: int) -> None:
    _, screen = at_a_terminal(folder, "prune", answer=answer)
    assert "Guess quickly." in screen and "1 skill will be removed; continue? [y/N]" in screen
    assert len(contents(store)) == left


def test_an_undo_command_names_the_skillbook_unless_it_is_the_default(store: Path, run: Run) -> None:
    store.rename(store.with_name("our team.db"))
    done = run("prune", "--yes", "--skillbook", "our team.db")
    assert "`ace skillbook rollback --skillbook 'our team.db' 5` undoes this" in done.out
    done = run("rollback", "5", "--yes", environ={"ACE_SKILLBOOK": "our team.db"})
    assert "`ace skillbook rollback 6` undoes this" in done.out


@pytest.mark.parametrize("days", ["1e12", "inf"])
def test_an_age_that_no_skill_can_have_removes_none(store: Path, run: Run, days: str) -> None:
    done = run("prune", "--unused-days", days, "--no-harmful")
    assert (done.code, done.out) == (0, "no skills to remove\n")


def test_answers_that_could_not_be_kept_are_not_asked_for(store: Path, run: Run) -> None:
    done = run("prune", "--unneeded", "--answers", "nowhere/answers.jsonl")
    assert (done.code, done.err) == (2, "ace: --answers: no such folder: 'nowhere'; create it first\n")


def test_a_pinned_skill_is_not_pruned(store: Path, run: Run) -> None:
    assert "maths-00002" in run("prune", "--dry-run").out
    run("pin", "maths-00002")
    assert run("prune", "--dry-run").out == "no skills to remove\n"
