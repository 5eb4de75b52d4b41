"""`ace learn` says what it found, and asks before it pays for runs that may not be what the user means."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.command_line import ACE, Done, Run, command_environment
from tests.support.scripted_server import ScriptedServer

EVENTS = [{"ts": number, "level": "info", "msg": f"worker {number} started"} for number in range(30)]
MESSAGES = [{"time": number, "message": f"worker {number} started", "status": "ok"} for number in range(30)]
SAME_ID = [{"id": "run-1", "task": f"part {number}", "answer": "a"} for number in range(5)]
NO_OUTCOME = [{"question": f"{number}?", "answer": "LESSON a"} for number in range(200)]
TELLING = [{"question": f"{number}?", "answer": "LESSON a", "correct": False} for number in range(3)]
TREE = [{"type": "step", "id": str(number), "parent_id": str(number - 1), "data": "LESSON a"} for number in range(30)]

DOUBTFUL: dict[str, tuple[Sequence[object], str]] = {
    "no task and no answer": (EVENTS, "30 of 30 runs have neither a task nor an answer"),
    "many runs that look like events": (MESSAGES, "most of the 30 runs have only a task or only an answer"),
    "one id": (SAME_ID, "all 5 runs have the same id"),
    "no outcomes": (NO_OUTCOME, "none of the 200 runs has an outcome, a right answer or steps"),
    "events in one run": (TREE, "look like the events of one run"),
}


def store(path: Path, records: Sequence[object]) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


@pytest.fixture
def learn(here: Run, model: list[str]) -> Callable[..., Done]:
    return lambda *arguments: here("learn", *arguments, *model)


@pytest.mark.parametrize("kind", DOUBTFUL)
def test_without_a_terminal_nothing_is_paid_for_and_the_options_are_named(
    kind: str, learn: Callable[..., Done], tmp_path: Path, server: ScriptedServer
) -> None:
    records, doubt = DOUBTFUL[kind]
    store(tmp_path / "a.jsonl", records)
    done = learn("a.jsonl")
    assert (done.code, done.out) == (2, "")
    assert doubt in done.err, done.err
    last = done.err.splitlines()[-1]
    assert [option for option in ("--yes", "--limit", "--format", "--map") if option not in last] == []
    assert server.requests == []
    assert not (tmp_path / "skills.db").exists()


def test_ten_thousand_events_cost_nothing_before_a_yes(
    learn: Callable[..., Done], tmp_path: Path, server: ScriptedServer
) -> None:
    for number, record in enumerate((EVENTS[0], MESSAGES[0], {"method": "GET", "path": "/a", "ms": 5})):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps([{**record, "n": count} for count in range(10_000)]), encoding="utf-8")
        assert learn(path.name).code == 2
    assert server.requests == []


@pytest.mark.parametrize("decided", [["--yes"], ["--limit", "2"], ["--format", "unknown"], ["--map", "own.toml"]])
def test_an_option_decides(decided: list[str], learn: Callable[..., Done], tmp_path: Path) -> None:
    store(tmp_path / "a.jsonl", SAME_ID)
    (tmp_path / "own.toml").write_text('name = "own"\nwhen = "nothing_like_it"\n', encoding="utf-8")
    done = learn("a.jsonl", *decided, "--json")
    assert (done.code, done.data["traces"]["learned"]) == (0, 2 if "--limit" in decided else 5)


def test_runs_with_something_to_learn_from_are_not_asked_about(learn: Callable[..., Done], tmp_path: Path) -> None:
    store(tmp_path / "a.jsonl", TELLING)
    done = learn("a.jsonl")
    assert done.code == 0
    [line] = [line for line in done.err.splitlines() if "3 runs in 1 file" in line]
    assert line.endswith("3 runs in 1 file, all with a task, all with an answer, 3 failed")


def test_there_is_a_line_for_each_format(learn: Callable[..., Done], tmp_path: Path) -> None:
    store(tmp_path / "a.jsonl", TELLING)
    store(tmp_path / "b.jsonl", [{"example": {"question": "?"}, "prediction": {"answer": "LESSON b"}, "score": 0}])
    done = learn("a.jsonl", "b.jsonl")
    assert done.code == 0
    told = [line for line in done.err.splitlines() if " in 1 file, " in line]
    assert [line.partition(":")[2].partition(":")[0].strip() for line in told] == [
        "DSPy evaluations",
        "Other JSON, CSV and text",
    ]


def at_terminal(answer: str, *arguments: str, folder: Path) -> tuple[int, str]:
    """Run `ace learn` with a terminal at which something is typed, and return what it shows there."""
    main, other = pty.openpty()
    os.write(main, f"{answer}\n".encode())
    done = subprocess.run(
        [ACE, "learn", *arguments],
        cwd=folder,
        env={**command_environment(folder), "TERM": "dumb"},
        stdin=other,
        stdout=subprocess.PIPE,
        stderr=other,
        check=False,
    )
    os.close(other)
    shown = os.read(main, 100_000).decode()
    os.close(main)
    return done.returncode, shown


@pytest.mark.parametrize("answer", ["y", "n"])
def test_in_a_terminal_the_user_is_asked(answer: str, model: list[str], tmp_path: Path, server: ScriptedServer) -> None:
    store(tmp_path / "a.jsonl", SAME_ID)
    code, shown = at_terminal(answer, "a.jsonl", *model, folder=tmp_path)
    assert code == 0
    assert "all 5 runs have the same id" in shown
    assert "Learn from them as they are? [y/N]" in shown
    assert bool(server.requests) == (answer == "y")
    assert ("nothing was learned; --yes" in shown) == (answer == "n")


def test_a_dry_run_calls_no_model_and_writes_nothing(
    learn: Callable[..., Done], tmp_path: Path, server: ScriptedServer
) -> None:
    store(tmp_path / "a.jsonl", EVENTS)
    done = learn("a.jsonl", "--dry-run")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].startswith("format")
    assert "in 60 calls" in done.out
    assert done.out.splitlines()[-1] == "Nothing was learned. --limit 3 tries a few."
    found = learn("a.jsonl", "--dry-run", "--json").data
    assert (found["dry_run"], found["estimate"]["calls"], len(found["questions"])) == (True, 60, 1)
    assert server.requests == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
