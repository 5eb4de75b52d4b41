"""`ace skillbook show`."""

import json
from pathlib import Path

import pytest

from ace.skill import InsightSource
from ace.skillbook import Skillbook
from tests.support.command_line import Run
from tests.support.json_shape import misfits

SOURCE = {
    "trace_id": str,
    "sample_question": str,
    "epoch": int,
    "step": int,
    "integration": str,
    "error_identification": str,
    "learning_text": str,
}
SKILL = {
    "id": str,
    "section": str,
    "content": str,
    "helpful": int,
    "harmful": int,
    "neutral": int,
    "justification": str | None,
    "evidence": str | None,
    "created_at": str,
    "updated_at": str,
    "status": str,
    "sources": [SOURCE],
    "merged_into": str | None,
    "proof": str,
    "pinned": bool,
}
SHOWN = {
    "schema": int,
    "command": str,
    "skillbook": str,
    "version": int | None,
    "skills": [{**SKILL, "use": dict | None}],
}


def test_a_table_of_the_active_skills(store: Path, run: Run) -> None:
    with Skillbook.open(store) as book:
        book.remove_skill("maths-00002", soft=True)
    done = run("show")
    assert done.code == 0
    assert done.out.splitlines()[0] == "skills.db at version 6: 3 of 4 skills"
    assert "maths-00001" in done.out and "Guess quickly." not in done.out
    everything = run("show", "--all").out
    assert "removed" in everything and "Guess quickly." in everything


def test_a_skill_shows_the_trace_the_epoch_and_the_error_that_taught_it(store: Path, run: Run) -> None:
    said = run("show", "[maths-00001]").out
    last = said.splitlines()[-1].split()
    assert last[:3] == ["runs.jsonl#3", "1", "3"]
    assert "Added metres to feet" in said and "helpful 4" in said


def test_the_json_object_keeps_to_its_schema(store: Path, json_book: Path, run: Run) -> None:
    for book in (store, json_book):
        data = run("show", "--json", "--skillbook", book.name).data
        assert misfits(data, SHOWN) == []
        assert data["schema"] == 1
    assert run("show", "--json", "maths-00001").data["skills"][0]["sources"][0]["trace_id"] == "runs.jsonl#3"


@pytest.mark.parametrize("path", ["skills.json", "play.txt"])
def test_files_without_history_are_shown_too(json_book: Path, playbook: Path, run: Run, path: str) -> None:
    done = run("show", "--skillbook", path)
    assert done.code == 0
    assert done.out.startswith(f"{path}: 2 of 2 skills")


def test_a_question_shows_only_the_skills_that_fit_and_a_budget_leaves_others_out(store: Path, run: Run) -> None:
    ranked = run("show", "--query", "which country is it in", "--json").data["skills"]
    assert [skill["id"] for skill in ranked] == ["geography-00004"]
    assert run("show", "--query", "who painted the Mona Lisa", "--json").data["skills"] == []
    few = run("show", "--query", "which country is it in", "--budget", "20", "--json").data["skills"]
    assert [skill["id"] for skill in few] == ["geography-00004"]
    assert run("show", "--budget", "0", "--json").data["skills"] == []


def test_sections_can_be_given_several_times(store: Path, run: Run) -> None:
    assert len(run("show", "--section", "maths", "--json").data["skills"]) == 3
    assert len(run("show", "--section", "maths", "--section", "geography", "--json").data["skills"]) == 4


@pytest.mark.parametrize("text_format", ["markdown", "xml", "toon", "json"])
def test_the_formats_of_a_prompt(store: Path, run: Run, text_format: str) -> None:
    with Skillbook.open(store) as book:
        expected = book.as_prompt(format=text_format)  # type: ignore[arg-type]  # parametrized texts
        assert run("show", "--format", text_format).out == f"{expected}\n"
    part = run("show", "--format", text_format, "geography-00004").out
    assert "geography-00004" in part and "maths" not in part


def test_playbook_text_of_a_question_holds_what_fits(store: Path, run: Run) -> None:
    said = run("show", "--format", "playbook", "--query", "country", "--budget", "20").out
    assert said == "## geography\n[geography-00004] helpful=0 harmful=0 :: Name the country first.\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["maths-0001"], "did you mean 'maths-00001'?"),
        (["zebra"], "ace skillbook show --all"),
        (["--section", "mats"], "'geography', 'maths'"),
        (["--skillbook", "nope.db"], "give --skillbook"),
        (["--skillbook", "folder"], "is a folder"),
        (["--skillbook", "broken.json"], "line 1, column 1"),
        (["--skillbook", "bytes.json"], "not UTF-8"),
        (["--skillbook", "text.db"], "not a database"),
        (["--skillbook", "acme://team"], "no store is installed"),
        (["--budget", "-1"], "--budget"),
        (["--format", "xml", "--json"], "--format"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_2(
    store: Path, folder: Path, run: Run, arguments: list[str], named: str
) -> None:
    (folder / "folder").mkdir()
    (folder / "broken.json").write_text("skills", encoding="utf-8")
    (folder / "bytes.json").write_bytes(b"\xff{}")
    (folder / "text.db").write_text("no database", encoding="utf-8")
    before = {path: path.read_bytes() for path in folder.glob("*.*")}
    done = run("show", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1 and done.err.startswith("ace: ") and named in done.err
    assert {path: path.read_bytes() for path in before} == before


def test_control_characters_of_a_skill_do_not_reach_the_terminal(folder: Path, run: Run) -> None:
    skills = {"a-00001": {"section": "a", "content": "red \x1b[31m text"}}
    (folder / "skills.json").write_text(json.dumps({"skills": skills}), encoding="utf-8")
    assert "\x1b" not in run("show", "--skillbook", "skills.json").out


def test_a_source_is_named_as_blame_names_it(store: Path, run: Run) -> None:
    source = InsightSource("4bdf0a1c2d3e4f50@logs/05_plain.txt", "2 m + 3 ft?", 1, 1)
    with Skillbook.open(store) as book:
        book.update_skill("geography-00004", insight_source=source)
    shown = run("show", "geography-00004").out
    assert "logs/05_plain.txt" in shown and "4bdf0a1c2d3e4f50" not in shown


def test_a_time_that_has_no_equal_in_utc_is_shown_as_it_is(json_book: Path, run: Run) -> None:
    time = "0001-01-01T00:00:00+14:00"
    book = json.loads(json_book.read_text(encoding="utf-8"))
    book["skills"]["maths-00001"]["created_at"] = time
    json_book.write_text(json.dumps(book), encoding="utf-8")
    done = run("show", "maths-00001", "--skillbook", json_book)
    assert done.code == 0 and time in done.out
