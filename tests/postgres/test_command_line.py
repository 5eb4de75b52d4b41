"""`--skillbook postgresql://...`: the whole command line on a database."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import Done, Run
from tests.support.postgres_server import PASSWORD


@pytest.fixture
def run(here: Run, postgres: str) -> Callable[..., Done]:
    """Run `ace` on the book; nothing may show the password."""

    def run(*arguments: str, code: int = 0) -> Done:
        done = here(*arguments, "--skillbook", postgres)
        assert done.code == code, done.err
        assert PASSWORD not in done.out + done.err
        return done

    return run


def write_logs(folder: Path, count: int = 4) -> None:
    lines = [{"task": f"t{number}", "answer": f"LESSON w{number}"} for number in range(count)]
    (folder / "logs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def contents(postgres: str, as_of: int | None = None) -> list[str]:
    with Skillbook.open(postgres) as book:
        return [skill.content for skill in (book if as_of is None else book.as_of(as_of)).skills()]


def test_a_book_is_learned_shown_changed_and_rolled_back(
    tmp_path: Path, postgres: str, model: list[str], run: Callable[..., Done]
) -> None:
    write_logs(tmp_path)
    learn = ["learn", "logs.jsonl", "--no-prove", "--json", *model]
    lessons = [f"Remember LESSON w{number}." for number in range(4)]
    assert run(*learn, "--dry-run").data["skillbook"].startswith("postgresql://[hidden]@")
    assert contents(postgres) == []
    assert run(*learn).data["traces"]["learned"] == 4
    assert contents(postgres) == lessons
    assert run(*learn).data["traces"]["learned"] == 0  # the store remembers what it has learned
    assert run("ask", "What about w1?", *model).out == "LESSON w1\n"

    shown = run("skillbook", "show", "--json").data["skills"]
    assert [skill["content"] for skill in shown] == lessons
    first = shown[0]["id"]
    with Skillbook.open(postgres) as book:
        learned = book.version
    versions = run("skillbook", "log", "--json").data["versions"]
    assert [version["version"] for version in versions] == [4, 3, 2, 1]
    assert first in run("skillbook", "blame", first).out
    assert lessons[3] in run("skillbook", "diff", "0", str(learned)).out

    run("skillbook", "edit", first, "Changed.")
    run("skillbook", "add", "dates", "Check the date.")
    assert contents(postgres) == ["Changed.", *lessons[1:], "Check the date."]
    run("skillbook", "remove", first, "--yes")
    assert contents(postgres, as_of=learned) == lessons
    run("skillbook", "rollback", str(learned), "--yes")
    assert contents(postgres) == lessons
    run("skillbook", "prune", "--dry-run")
    run("skillbook", "dedup", "--embedding-provider", "lexical")
    forgotten = run("skillbook", "forget", "--answers", "--yes", "--json").data
    assert forgotten["answers"] > 0
    with Skillbook.open(postgres) as book:
        assert book.store is not None and list(book.store.recorded_answers()) == []
    assert {path.name for path in tmp_path.iterdir()} <= {"logs.jsonl", ".cache", ".config"}


def test_a_run_with_failures_is_resumed(
    tmp_path: Path, postgres: str, model: list[str], run: Callable[..., Done]
) -> None:
    (tmp_path / "logs.jsonl").write_text(
        '{"task": "a", "answer": "LESSON a"}\n{"task": "b", "answer": "REFUSED"}\n', encoding="utf-8"
    )
    learn = ["learn", "logs.jsonl", "--no-prove", "--lag", "0", *model]
    run(*learn, "--fail-fast", code=1)
    resumed = run(*learn, "--resume", "--json", code=1).data
    assert (resumed["traces"]["already_learned"], contents(postgres)) == (1, ["Remember LESSON a."])
