"""`ace skillbook log`, `diff`, `blame` and `rollback`."""

from pathlib import Path

import pytest

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
    assert [each["id"] for each in data["changed"]] == ["maths-00001", "maths-00002"]
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
