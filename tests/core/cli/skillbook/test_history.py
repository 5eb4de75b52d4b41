"""`ace skillbook log`, `diff`, `blame` and `rollback`."""

from dataclasses import replace
from pathlib import Path

import pytest

from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook
from ace.skillbook.store import SampleKey
from ace.updates import UpdateBatch, UpdateOperation
from tests.core.cli.skillbook.conftest import contents
from tests.core.cli.skillbook.test_show import SKILL
from tests.support.command_line import Run
from tests.support.json_shape import misfits

SAMPLE = {"run": str, "epoch": int, "sample": str}
ENTRY = {"version": int, "at": str, "author": str, "sample": dict | None, "changes": [dict], "skipped": [dict]}
LOG = {"schema": int, "command": str, "skillbook": str, "version": int, "versions": [ENTRY]}
DIFF = {
    "schema": int,
    "command": str,
    "first": str,
    "second": str,
    "added": [SKILL],
    "removed": [SKILL],
    "changed": [{"id": str, "fields": dict}],
}
CHANGE = {"version": int, "at": str, "author": str, "sample": dict | None, "change": dict, "text": str}
BLAME = {
    "schema": int,
    "command": str,
    "skillbook": str,
    "skill": str,
    "evidence": str | None,
    "traces": [str],
    "proof": {"state": str, "cases": [dict]},
    "changes": [CHANGE],
}
ROLLBACK = {
    "schema": int,
    "command": str,
    "skillbook": str,
    "rolled_back_to": int,
    "version": int,
    "skills": int,
    "undo": str,
}


def learn_from_a_sample(store: Path) -> None:
    operations = [UpdateOperation("TAG", skill_id="maths-00001", metadata={"helpful": 2}), UpdateOperation("ADD")]
    with Skillbook.open(store) as book:
        book.apply_update(UpdateBatch("", operations), author="TraceAnalyser", key=SampleKey("run-1", 2, "a.jsonl#7"))


def test_the_log_names_version_sample_and_what_was_changed_or_skipped(store: Path, run: Run) -> None:
    learn_from_a_sample(store)
    lines = run("log").out.splitlines()
    assert lines[0] == "skills.db at version 6"
    assert lines[2].split()[0] == "6"
    assert "TraceAnalyser" in lines[2] and "a.jsonl#7 (epoch 2)" in lines[2] and "1 tagged, 1 skipped" in lines[2]
    assert [line.split()[0] for line in lines[2:]] == ["6", "5", "4", "3", "2", "1"]


def test_a_limit_shows_the_newest_versions(store: Path, run: Run) -> None:
    done = run("log", "--limit", "2")
    assert "3 older versions" in done.out.splitlines()[0]
    assert [line.split()[0] for line in done.out.splitlines()[2:]] == ["5", "4"]
    assert "(1 older version not shown)" in run("log", "--limit", "4").out
    assert len(run("log", "--limit", "0", "--json").data["versions"]) == 5


def test_the_json_of_the_log_keeps_to_its_schema(store: Path, run: Run) -> None:
    learn_from_a_sample(store)
    data = run("log", "--json").data
    assert misfits(data, LOG) == []
    assert misfits(data["versions"][0]["sample"], SAMPLE) == []
    assert data["versions"][0]["changes"][0]["kind"] == "tag"


def test_the_difference_of_two_versions(store: Path, run: Run) -> None:
    data = run("diff", "3", "5", "--json").data
    assert misfits(data, DIFF) == []
    assert [skill["id"] for skill in data["added"]] == ["geography-00004"]
    assert data["changed"] == [{"id": "maths-00001", "fields": {"helpful": {"before": 3, "after": 4}}}]
    assert run("diff", "3").out == run("diff", "3", "5").out
    assert [skill["id"] for skill in run("diff", "5", "3", "--json").data["removed"]] == ["geography-00004"]
    assert "1 added, 0 removed, 1 changed" in run("diff", "3", "5").out


def test_the_difference_of_two_files_of_any_format(json_book: Path, playbook: Path, store: Path, run: Run) -> None:
    data = run("diff", "skills.json", "skills.db", "--json").data
    assert misfits(data, DIFF) == []
    assert [skill["id"] for skill in data["changed"]] == ["maths-00001", "maths-00002"]
    assert [skill["id"] for skill in data["added"]] == ["maths-00003", "geography-00004"]
    assert "0 added, 0 removed, 0 changed" in run("diff", "play.txt", "play.txt").out


def test_blame_tells_the_life_of_a_skill(store: Path, run: Run) -> None:
    learn_from_a_sample(store)
    data = run("blame", "maths-00001", "--json").data
    assert misfits(data, BLAME) == []
    assert [change["version"] for change in data["changes"]] == [1, 5, 6]
    assert [change["text"] for change in data["changes"]][1:] == ["tagged: helpful +1", "tagged: helpful +2"]
    assert "a.jsonl#7" in run("blame", "[maths-00001]").out


def test_blame_knows_a_skill_that_was_removed(store: Path, run: Run) -> None:
    with Skillbook.open(store) as book:
        book.remove_skill("maths-00002")
    assert run("blame", "maths-00002").out.splitlines()[-1].endswith("deleted")


@pytest.fixture
def changed_cases(store: Path) -> str:
    """Give a skill of the store cases in versions 6 to 9, and return the id of the one that stays."""
    first, second = (SkillCase.make(f"2 + {number}?", CaseCheck("numeric", str(2 + number))) for number in (1, 2))
    with Skillbook.open(store) as book:
        learned = UpdateOperation("UPDATE", skill_id="maths-00001", cases=[first])
        book.apply_update(UpdateBatch("", [learned]))
        book.put_cases("maths-00001", [second])
        passed = replace(first, last_result="passed", last_run_at="2026-02-02", model="m", answer="It is 3.")
        book.note_results({"maths-00001": [passed]}, author="skillbook test")
        book.remove_cases("maths-00001", [second.id])
    return first.id


def test_the_log_says_what_became_of_cases(changed_cases: str, run: Run) -> None:
    lines = run("log", "--limit", "4").out.splitlines()[2:]
    for line, words in zip(lines, ["1 case removed", "1 case run", "1 case set", "1 updated"], strict=True):
        assert line.rstrip().endswith(words), line
    assert "skillbook test" in lines[1]
    kinds = [version["changes"][0]["kind"] for version in run("log", "--limit", "4", "--json").data["versions"]]
    assert kinds == ["cases", "cases", "cases", "update"]


def test_blame_says_what_became_of_cases(changed_cases: str, run: Run) -> None:
    texts = [change["text"] for change in run("blame", "maths-00001", "--json").data["changes"]][-4:]
    assert texts[0] == f"updated: case {changed_cases}: 2 + 1? (not run)"
    assert texts[1].startswith("case ") and texts[1].endswith(" set: 2 + 2? (not run)")
    assert texts[2] == f"case {changed_cases} passed with m"
    assert texts[3].endswith(" removed")


def test_blame_shows_the_answer_after_it_was_learned(changed_cases: str, run: Run) -> None:
    [case] = run("blame", "maths-00001", "--json").data["proof"]["cases"]
    assert (case["id"], case["after"], case["result"]) == (changed_cases, "It is 3.", "passed")
    assert "It is 3." in run("blame", "maths-00001").out


def test_an_edited_skill_forgets_the_answers_of_its_older_text(changed_cases: str, store: Path, run: Run) -> None:
    with Skillbook.open(store) as book:
        book.update_skill("maths-00001", content="Count in steps.")
        skill = book.get_skill("maths-00001")
    assert skill is not None
    (case,) = skill.cases
    assert (case.last_result, case.answer) == ("not_run", "")


def test_a_difference_in_cases_is_shown(changed_cases: str, run: Run) -> None:
    [changed] = run("diff", "5", "9", "--json").data["changed"]
    assert changed["fields"]["cases"]["before"] == []
    assert [case["id"] for case in changed["fields"]["cases"]["after"]] == [changed_cases]
    assert changed["fields"]["proof"] == {"before": "unproven", "after": "proven"}
    [back] = run("diff", "9", "5", "--json").data["changed"]
    assert back["fields"]["cases"]["after"] == []
    lines = [line.split() for line in run("diff", "6", "8").out.splitlines() if " cases " in line]
    [(*_, last)] = [" ".join(line).partition(" cases ") for line in lines]
    assert last.startswith(f"{changed_cases} not run {changed_cases} passed, ")


def test_a_rollback_is_a_version_that_can_be_taken_back(store: Path, run: Run) -> None:
    before = contents(store)
    data = run("rollback", "1", "--yes", "--json").data
    assert misfits(data, ROLLBACK) == []
    assert (data["version"], data["skills"]) == (6, 1)
    assert list(contents(store)) == ["maths-00001"]
    done = run("rollback", "5", "--yes")
    assert "`ace skillbook rollback 6` undoes this" in done.out
    assert contents(store) == before
    assert "rolled back to version 5" in run("log", "--limit", "1").out


def test_a_rollback_to_the_newest_version_changes_nothing(store: Path, run: Run) -> None:
    assert "nothing was changed" in run("rollback", "5").out
    assert run("log", "--json").data["version"] == 5


def test_without_a_terminal_a_rollback_wants_yes(store: Path, run: Run) -> None:
    done = run("rollback", "1")
    assert done.code == 2
    assert "remove 3" in done.err and "--yes" in done.err
    assert len(contents(store)) == 4


@pytest.mark.parametrize(
    "arguments", [["log"], ["diff", "1", "2"], ["blame", "maths-00001"], ["rollback", "1", "--yes"]]
)
def test_a_book_without_history_says_so(json_book: Path, run: Run, arguments: list[str]) -> None:
    before = json_book.read_bytes()
    done = run(*arguments, "--skillbook", "skills.json")
    assert (done.code, done.out) == (2, "")
    assert "keeps no history" in done.err and "ace skillbook merge skills.json --output skills.db" in done.err
    assert json_book.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["rollback", "9", "--yes"], "from 0 to 5, and `ace skillbook log`"),
        (["rollback", "-1", "--yes"], "-1"),
        (["diff", "1", "9"], "from 0 to 5, and `ace skillbook log`"),
        (["diff", "1", "skills.json"], "two versions, or two files"),
        (["diff", "nope.json"], "nope.json"),
        (["blame", "maths-0001"], "did you mean 'maths-00001'?"),
        (["log", "--limit", "-2"], "--limit"),
    ],
)
def test_unknown_versions_ids_and_files_are_one_sentence(
    store: Path, run: Run, arguments: list[str], named: str
) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1 and named in done.err
    assert run("log", "--json").data["version"] == 5
