"""`ace skillbook add`, `edit`, `pin`, `remove` and `restore`: one skill at a time, and each change can be undone."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.core.cli.skillbook.conftest import contents
from tests.core.cli.skillbook.test_command import at_a_terminal
from tests.core.cli.skillbook.test_show import SKILL
from tests.support.command_line import ACE, Run, ace
from tests.support.json_shape import misfits

FRAME = {"schema": int, "command": str, "skillbook": str, "version": int | None, "undo": str}
ONE = {**FRAME, "skill": SKILL}
SEVERAL = {**FRAME, "skills": [SKILL]}
BOOKS = pytest.mark.parametrize("name", ["skills.db", "skills.json"])


@pytest.fixture(autouse=True)
def books(store: Path, json_book: Path) -> None:
    """Both kinds of skillbooks are there."""


def undo(run: Run, command: str) -> None:
    """Run the command that undoes a change, as the user copies it."""
    program, group, *arguments = shlex.split(command)
    assert (program, group) == ("ace", "skillbook")
    without_asking = [] if "--yes" in arguments or arguments[0] not in ("remove", "rollback") else ["--yes"]
    assert run(*arguments, *without_asking).code == 0


def editor(folder: Path, script: str) -> dict[str, str]:
    """The environment with an editor whose path has a blank and which takes an argument before the file."""
    program = folder / "my editor"
    program.write_text(f"#!/bin/sh\nset -e\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return {"EDITOR": f"'{program}' --wait"}


def kept_texts(folder: Path) -> list[Path]:
    return list(folder.glob("ace-edit-*/*"))


@BOOKS
@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "maths", "Convert the units first."],
        ["edit", "maths-00001", "Compare the units."],
        ["edit", "maths-00001", "-5 is a number."],
        ["edit", "maths-00001", "--section", "physics"],
        ["edit", "maths-00001", "Compare the units.", "--section", "physics"],
        ["remove", "maths-00001", "maths-00002", "--yes"],
        ["pin", "maths-00001", "maths-00002"],
    ],
)
def test_the_printed_command_undoes_the_change(folder: Path, run: Run, name: str, arguments: list[str]) -> None:
    before = contents(folder / name)
    shown = run("show", "--json", "--skillbook", name).data["skills"]
    done = run(*arguments, "--skillbook", name)
    assert done.code == 0
    assert contents(folder / name) != before or "--section" in arguments or arguments[0] == "pin"
    undo(run, done.out.split("`")[1])
    assert contents(folder / name) == before
    fields = ("id", "section", "content", "helpful", "harmful", "sources", "created_at", "pinned")
    after = sorted(run("show", "--json", "--skillbook", name).data["skills"], key=lambda skill: str(skill["id"]))
    shown.sort(key=lambda skill: skill["id"])  # a skill that comes back to its section is the last one there
    assert [[skill[field] for field in fields] for skill in after] == [
        [skill[field] for field in fields] for skill in shown
    ]


def test_each_change_of_a_store_is_one_version_with_its_author(run: Run, store: Path) -> None:
    run("add", "maths", "Convert first.")
    run("edit", "maths-00005", "Convert before you add.", "--section", "physics")
    run("remove", "maths-00005", "maths-00001", "--yes")
    run("restore", "maths-00005", "maths-00001")
    versions = run("log", "--limit", "4", "--json").data["versions"]
    assert [version["version"] for version in versions] == [9, 8, 7, 6]
    authors = [f"ace skillbook {name}" for name in ("restore", "remove", "edit", "add")]
    assert [version["author"] for version in versions] == authors


@BOOKS
def test_the_json_of_each_keeps_to_its_schema(run: Run, name: str) -> None:
    where = ["--skillbook", name, "--json"]
    added = run("add", "maths", "Convert first.", *where).data
    assert misfits(added, ONE) == []
    edited = run("edit", added["skill"]["id"], "Convert.", *where).data
    assert misfits(edited, {**ONE, "is_changed": bool}) == []
    assert misfits(run("remove", "maths-00001", "--yes", *where).data, SEVERAL) == []
    assert misfits(run("restore", "maths-00001", *where).data, SEVERAL) == []
    for name, pinned in (("pin", True), ("unpin", False)):
        data = run(name, "maths-00001", *where).data
        assert misfits(data, SEVERAL) == []
        assert [skill["pinned"] for skill in data["skills"]] == [pinned]


def test_texts_are_read_from_standard_input(run: Run, store: Path) -> None:
    run("add", "maths", "-", stdin="Two\nlines.\n")
    run("edit", "maths-00001", "-", stdin="One line.\n")
    assert contents(store)["maths-00005"] == "Two\nlines."
    assert contents(store)["maths-00001"] == "One line."


def test_add_creates_the_skillbook(run: Run, folder: Path) -> None:
    assert "added [maths-00001]" in run("add", "maths", "Convert first.", "--skillbook", "new.db").out
    assert contents(folder / "new.db") == {"maths-00001": "Convert first."}


@BOOKS
def test_a_pinned_skill_is_first_and_is_removed_only_once_it_is_unpinned(run: Run, folder: Path, name: str) -> None:
    where = ["--skillbook", name]
    done = run("pin", "[maths-00002]", *where)
    assert done.out.splitlines()[0].startswith("pinned [maths-00002]: ")
    assert run("show", "--format", "markdown", *where).out.splitlines()[1].startswith("- [maths-00002]")
    [row] = [line for line in run("show", *where).out.splitlines() if "maths-00002" in line]
    assert row.split()[1] == "pinned"
    assert "pinned" in run("show", "maths-00002", *where).out
    assert "maths-00002" not in run("prune", "--unhelpful-uses", "1", "--json", *where).out
    refused = run("remove", "maths-00001", "maths-00002", "--yes", *where)
    assert (refused.code, len(contents(folder / name))) == (2, {"skills.db": 4, "skills.json": 2}[name])
    assert "`ace skillbook unpin maths-00002` unpins it" in refused.err
    run("edit", "maths-00002", "Never guess.", *where)
    assert run("show", "--format", "markdown", *where).out.splitlines()[1].startswith("- [maths-00002] Never guess.")
    undo(run, done.out.split("`")[1]) if name == "skills.json" else run("unpin", "maths-00002", *where)
    assert run("remove", "maths-00002", "--yes", *where).code == 0


def test_the_history_tells_who_pinned_a_skill(run: Run, store: Path) -> None:
    run("pin", "maths-00001")
    again = run("pin", "maths-00001")
    assert again.out == "already pinned [maths-00001]: Check the units before you add.\n"
    run("unpin", "maths-00001")
    versions = run("log", "--limit", "3", "--json").data["versions"]
    assert [(version["version"], version["author"]) for version in versions[:2]] == [
        (7, "ace skillbook unpin"),
        (6, "ace skillbook pin"),
    ]
    assert "1 unpinned" in run("log").out and "1 pinned" in run("log").out
    assert "unpinned" in run("blame", "maths-00001").out


@BOOKS
def test_no_agent_sees_a_removed_skill_and_the_book_keeps_it(run: Run, folder: Path, name: str) -> None:
    run("remove", "[maths-00001]", "--yes", "--skillbook", name)
    assert "maths-00001" not in run("show", "--format", "markdown", "--skillbook", name).out
    [row] = [line for line in run("show", "--all", "--skillbook", name).out.splitlines() if "maths-00001" in line]
    assert row.split()[1] == "removed"


def test_a_merged_skill_can_be_restored_with_what_was_decided_about_it(run: Run, store: Path) -> None:
    with Skillbook.open(store) as book:
        book.keep_apart("maths-00003", "geography-00004", reasoning="different")
    assert run("dedup", "--embedding-provider", "lexical").code == 0
    assert "was merged into 'maths-00001'" in run("edit", "maths-00003", "x").err
    assert run("restore", "maths-00003").code == 0
    with Skillbook.open(store) as book:
        skill = book.get_skill("maths-00003")
        assert skill is not None and skill.is_active and skill.merged_into is None
        assert book.similarity_decisions()["geography-00004", "maths-00003"].reasoning == "different"


@BOOKS
def test_the_editor_gets_the_text_and_its_result_is_taken(folder: Path, run: Run, name: str) -> None:
    environ = editor(folder, f'cp "$2" {folder}/seen; printf "%s\\n" "Wait: $1." "Second line." > "$2"')
    done = run("edit", "maths-00001", "--skillbook", name, environ=environ)
    assert (done.code, done.err) == (0, "")
    before = {"skills.db": "Check the units before you add.", "skills.json": "Estimate the result first."}[name]
    assert (folder / "seen").read_text(encoding="utf-8") == f"{before}\n"
    assert contents(folder / name)["maths-00001"] == "Wait: --wait.\nSecond line."


def test_visual_comes_before_editor(folder: Path, run: Run) -> None:
    environ = {**editor(folder, 'echo Changed. > "$2"'), "VISUAL": "false"}
    assert "the editor 'false' failed" in run("edit", "maths-00001", environ=environ).err


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("true", 0, "nothing was changed"),
        ('echo Half. > "$2"; exit 3', 2, "failed (exit code 3), so nothing was changed"),
        (': > "$2"', 2, "the text is empty, so nothing was changed"),
        ('printf "\\377" > "$2"', 2, "cannot be read as UTF-8 text, so nothing was changed"),
        ('rm "$2"', 2, "cannot be read as UTF-8 text, so nothing was changed"),
    ],
)
def test_an_editor_that_changes_nothing_or_fails_changes_nothing(
    folder: Path, store: Path, run: Run, script: str, code: int, said: str
) -> None:
    before = store.read_bytes()
    environ = {**editor(folder, script), "TMPDIR": str(folder)}
    done = ace("skillbook", "edit", "maths-00001", folder=folder, environ=environ)
    assert done.code == code
    assert said in done.out + done.err
    assert kept_texts(folder) == []
    assert run("log", "--json").data["version"] == 5
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"EDITOR": "", "VISUAL": ""}, "set the variable EDITOR"),
        ({"EDITOR": "/nowhere/ed"}, "'/nowhere/ed' cannot be started"),
        ({"EDITOR": "ed 'x"}, "the variable EDITOR is not a command"),
    ],
)
def test_an_editor_that_cannot_be_started_is_one_sentence(run: Run, environ: dict[str, str], said: str) -> None:
    done = run("edit", "maths-00001", environ={"VISUAL": "", **environ})
    assert (done.code, done.out) == (2, "")
    assert said in done.err and done.err.count("\n") == 1


@BOOKS
def test_what_another_process_changed_meanwhile_is_kept(folder: Path, name: str) -> None:
    other = f"'{ACE}' skillbook add maths 'From the other.' --skillbook {name}; echo Mine. > \"$2\""
    done = ace("skillbook", "edit", "maths-00001", "--skillbook", name, folder=folder, environ=editor(folder, other))
    assert done.code == 0
    assert {"Mine.", "From the other."} <= set(contents(folder / name).values())


@BOOKS
def test_two_edits_of_one_skill_lose_neither_text(folder: Path, name: str) -> None:
    other = f"'{ACE}' skillbook edit maths-00001 'Theirs.' --skillbook {name}; echo Mine. > \"$2\""
    environ = {**editor(folder, other), "TMPDIR": str(folder)}
    done = ace("skillbook", "edit", "maths-00001", "--skillbook", name, folder=folder, environ=environ)
    assert done.code == 2
    assert "another process changed the skill 'maths-00001' meanwhile" in done.err
    assert contents(folder / name)["maths-00001"] == "Theirs."
    [kept] = kept_texts(folder)
    assert kept.read_text(encoding="utf-8") == "Mine.\n" and str(kept) in done.err
    assert kept.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["remove", "maths-0001", "--yes"], "did you mean 'maths-00001'?"),
        (["remove", "maths-00001", "zzz", "--yes"], "has no skill 'zzz'"),
        (["remove", "maths-00001"], "1 skill will be removed from skills.db, but standard input is not a terminal"),
        (["remove"], "the argument IDS is missing"),
        (["restore"], "the argument IDS is missing"),
        (["restore", "maths-00001"], "is not removed, so nothing was changed"),
        (["restore", "maths-0001"], "did you mean 'maths-00001'?"),
        (["edit", "maths-0001", "x"], "did you mean 'maths-00001'?"),
        (["edit", "maths-00001", " "], "the new text is empty"),
        (["add", "maths", " "], "the text of the new skill is empty"),
        (["add", " ", "x"], "the section of the new skill is empty"),
        (["add", "maths", "x", "--skillbook", "play.txt"], "is a text"),
        (["edit", "maths-00001", "x", "--skillbook", "nope.db"], "no such skillbook: 'nope.db'"),
    ],
)
def test_mistakes_change_nothing(store: Path, run: Run, arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err and done.err.count("\n") == 1
    assert run("log", "--json").data["version"] == 5


def test_an_edit_without_a_difference_says_so(run: Run) -> None:
    done = run("edit", "maths-00001", "Check the units before you add.", "--section", "maths")
    assert done.code == 0 and "nothing was changed" in done.out
    assert run("log", "--json").data["version"] == 5


def test_a_removed_skill_is_restored_before_it_is_edited(run: Run) -> None:
    run("remove", "maths-00001", "--yes")
    assert "`ace skillbook restore maths-00001` brings it back" in run("edit", "maths-00001", "x").err


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 4), (b"y\n", 3)])
def test_at_a_terminal_a_removal_shows_the_skill_and_asks(folder: Path, store: Path, answer: bytes, left: int) -> None:
    _, screen = at_a_terminal(folder, "remove", "maths-00001", answer=answer)
    assert "[maths-00001] Check the units before you add." in screen and "[y/N]" in screen
    assert len(contents(store)) == left
