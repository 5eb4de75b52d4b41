"""`--skillbook scheme://...`: every command that takes a skillbook takes that of a plugin's store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.core.cli.vault_distribution import install_vault, vault_file, vault_in_this_process
from tests.support.command_line import Done, Run, ace
from tests.support.scripted_server import ScriptedServer

PLACE = "vault://team/skills"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return install_vault(tmp_path / "vault")


@pytest.fixture
def run(here: Run, folder: Path, environ: dict[str, str]) -> Iterator[Run]:
    """Run `ace` in this process, which has the plugin."""
    with vault_in_this_process(environ):
        yield partial(here, folder=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working folder, in which nothing but the inputs may be."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def kept(tmp_path: Path) -> list[str]:
    """The skills that the vault holds."""
    with Skillbook.open(vault_file(tmp_path / "vault", "team/skills")) as book:
        return [skill.content for skill in book.skills()]


def write_lessons(path: Path, **fields: str) -> None:
    lines = [{"question": f"What about w{number}?", **fields, "answer": f"LESSON w{number}"} for number in range(3)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def test_it_is_learned_into_asked_and_measured(
    folder: Path, tmp_path: Path, environ: dict[str, str], model: list[str]
) -> None:
    write_lessons(folder / "runs.jsonl")

    def run(*arguments: str) -> Done:
        return ace(*arguments, "--skillbook", PLACE, folder=folder, environ=environ)

    dry = run("learn", "runs.jsonl", "--dry-run", "--json", *model)
    assert (dry.code, dry.data["skillbook"]) == (0, PLACE), dry.err
    assert kept(tmp_path) == []
    learned = run("learn", "runs.jsonl", "--lag", "0", *model)
    assert learned.code == 0, learned.err
    assert f"Learned into {PLACE}" in learned.out
    assert kept(tmp_path) == [f"Remember LESSON w{number}." for number in range(3)]
    asked = run("ask", "What about w1?", *model)
    assert (asked.code, asked.out) == (0, "LESSON w1\n"), asked.err
    measured = run("eval", "runs.jsonl", *model)
    assert measured.code == 0, measured.err
    assert measured.out.startswith("Accuracy 0.0% without skills, 100.0% with them")
    trained = run("train", "runs.jsonl", *model)
    assert trained.code == 0, trained.err
    assert names_in(folder) == {"runs.jsonl"}


def test_its_history_is_shown_and_changed(folder: Path, tmp_path: Path, run: Run) -> None:
    (folder / "rules.md").write_text("- Check the units.\n- Round at the end.\n", encoding="utf-8")

    def skillbook(*arguments: str) -> Done:
        done = run("skillbook", *arguments)
        assert done.code == 0, done.err
        return done

    book = ("--skillbook", PLACE)
    skillbook("import", "rules.md", *book)
    assert kept(tmp_path) == ["Check the units.", "Round at the end."]
    assert len(skillbook("show", "--json", *book).data["skills"]) == 2
    [first, _] = [skill["id"] for skill in skillbook("show", "--json", *book).data["skills"]]
    assert first in skillbook("blame", first, *book).out
    assert len(skillbook("log", "--json", *book).data["versions"]) == 1
    assert "Check the units." in skillbook("diff", "0", "1", *book).out
    skillbook("export", "out.md", *book)
    assert "Check the units." in (folder / "out.md").read_text(encoding="utf-8")
    skillbook("dedup", "--embedding-provider", "lexical", *book)
    skillbook("prune", *book)
    skillbook("rollback", "0", "--yes", *book)
    assert kept(tmp_path) == []
    skillbook("merge", "rules.md", PLACE, "--output", "vault://other")
    with Skillbook.open(vault_file(tmp_path / "vault", "other")) as merged:
        assert len(merged) == 2
    assert names_in(folder) == {"rules.md", "out.md"}


def test_its_cases_are_tested(folder: Path, tmp_path: Path, run: Run, model: list[str]) -> None:
    added = run("skillbook", "add", "w", "LESSON w1", "--case", "What about w1? => LESSON w1", "--skillbook", PLACE)
    assert added.code == 0, added.err
    done = run("skillbook", "test", PLACE, *model, "--json")
    assert done.data["passed"] + done.data["failed"] == 1
    assert (done.data["skillbook"], done.data["version"]) == (PLACE, 2)
    with Skillbook.open(vault_file(tmp_path / "vault", "team/skills")) as book:
        [skill] = book.skills()
        assert skill.cases[0].last_result == done.data["cases"][0]["result"]
    assert names_in(folder) == set()


def test_a_run_that_was_stopped_is_resumed(
    folder: Path, tmp_path: Path, run: Run, model: list[str], server: ScriptedServer
) -> None:
    (folder / "runs.jsonl").write_text(
        '{"question": "a", "answer": "LESSON a"}\n{"question": "b", "answer": "REFUSED"}\n', encoding="utf-8"
    )
    command = ["learn", "runs.jsonl", "--lag", "0", "--skillbook", PLACE, *model]
    stopped = run(*command, "--fail-fast")
    assert stopped.code == 1
    assert "the same command with --resume continues the run" in stopped.err
    resumed = run(*command, "--resume", "--json")
    assert (resumed.code, resumed.data["traces"]["already_learned"]) == (1, 1), resumed.err
    assert kept(tmp_path) == ["Remember LESSON a."]
    # Where there is no folder for it, no `failures.jsonl` is written; the report says what failed.
    assert names_in(folder) == {"runs.jsonl"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["learn", "runs.jsonl", "--resume", "--dry-run"], "a copy that does not know which runs are unfinished"),
        (["train", "runs.jsonl", "--resume", "--validate", "more.jsonl"], "omit --validate, or train into a .db"),
    ],
)
def test_what_cannot_be_resumed_is_said(
    arguments: list[str], said: str, folder: Path, run: Run, model: list[str]
) -> None:
    write_lessons(folder / "runs.jsonl")
    done = run(*arguments, "--skillbook", PLACE, *model)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_validated_training_keeps_the_best_state_there(folder: Path, run: Run, model: list[str]) -> None:
    write_lessons(folder / "runs.jsonl")
    (folder / "more.jsonl").write_text('{"question": "What about w0, then?", "answer": "LESSON w0"}', encoding="utf-8")
    arguments = ["train", "runs.jsonl", "--validate", "more.jsonl", "--gate", "--skillbook", PLACE, *model]
    done = run(*arguments)
    assert done.code == 0, done.err
    assert "validation after 3 samples" in done.err
    assert names_in(folder) == {"runs.jsonl", "more.jsonl"}


COMMANDS = [["learn", "runs.jsonl"], ["train", "runs.jsonl"], ["eval", "runs.jsonl"], ["ask", "What?"], ["show"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_unknown_scheme_and_a_closed_store_are_said(
    command: list[str], folder: Path, run: Run, model: list[str]
) -> None:
    write_lessons(folder / "runs.jsonl")
    command = ["skillbook", "show"] if command == ["show"] else [*command, *model]
    unknown = run(*command, "--skillbook", "volt://team/skills")
    assert (unknown.code, unknown.out) == (2, "")
    said, _, available = unknown.err.partition("; available: ")
    assert said == "ace: no store is installed for 'volt://team/skills'"
    assert {"'sqlite'", "'vault'"} <= set(available.rstrip("\n").split(", "))  # others may be installed
    closed = run(*command, "--skillbook", "vault://sealed")
    assert (closed.code, closed.out) == (2, "")
    assert closed.err == "ace: vault://sealed: the vault is sealed; check that you may read it\n"
    assert names_in(folder) == {"runs.jsonl"}


def test_the_settings_of_the_user_can_name_it(folder: Path, run: Run, tmp_path: Path) -> None:
    (folder / "rules.md").write_text("- Check the units.\n", encoding="utf-8")
    settings = folder / ".config" / "ace" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'skillbook = "{PLACE}"\n', encoding="utf-8")
    done = run("skillbook", "import", "rules.md")
    assert done.code == 0, done.err
    assert kept(tmp_path) == ["Check the units."]


SECRET_PLACE = "vault://ann:s3cr3tpw9@team/skills"


def test_no_command_shows_the_password_of_a_location(
    folder: Path, run: Run, model: list[str], server: ScriptedServer
) -> None:
    write_lessons(folder / "runs.jsonl")
    (folder / "rules.md").write_text("- Check the units.\n- Check the sums.\n", encoding="utf-8")
    commands = [
        ["learn", "runs.jsonl", "--lag", "0", *model],
        ["learn", "runs.jsonl", "--dry-run", *model],
        ["train", "runs.jsonl", *model],
        ["eval", "runs.jsonl", *model],
        ["ask", "What?", *model],
        ["config"],
        *(
            ["skillbook", *rest]
            for rest in (
                ["import", "rules.md"],
                ["show"],
                ["log"],
                ["blame", "imported-00001"],
                ["diff", "1"],
                ["diff", "1", "2"],
                ["export", "out.json"],
                ["merge", "rules.md", "--output", SECRET_PLACE],
                ["dedup", "--dry-run"],
                ["prune", "--dry-run"],
                ["prune", "--unneeded", "--dry-run", *model],
                ["test", "--junit", "report.xml", *model],
                ["test", "--read-only", "--only", "no-such-skill", *model],
                ["add", "Check the date.", "--section", "dates"],
                ["rollback", "1", "--yes"],
                ["rollback", "99", "--yes"],
                ["show", "no-such-skill"],
            )
        ),
    ]
    for place in (SECRET_PLACE, SECRET_PLACE.replace("vault", "volt"), "vault://sealed:s3cr3tpw9@x/y"):
        for command in commands:
            for flags in ([], ["--json"]):
                given = [] if command[1:2] == ["merge"] else ["--skillbook", place]
                if command == ["config"]:
                    given = []
                done = run(*command, *given, *flags)
                assert "s3cr3tpw9" not in done.out + done.err, (command, flags, done.out, done.err)
    assert "[hidden]" in run("skillbook", "log", "--skillbook", SECRET_PLACE, "--json").data["skillbook"]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_diff_hides_the_password_of_a_location(folder: Path, run: Run, flags: list[str]) -> None:
    (folder / "rules.md").write_text("- Check the units.\n", encoding="utf-8")
    run("skillbook", "import", "rules.md", "--skillbook", SECRET_PLACE)
    done = run("skillbook", "diff", SECRET_PLACE, "rules.md", *flags)
    assert done.code == 0 and "vault://[hidden]@team/skills" in done.out
    assert "s3cr3tpw9" not in done.out + done.err
