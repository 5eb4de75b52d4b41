"""`ace claude-code learn` over stored sessions: each turn once, whatever happens meanwhile. No binary is needed."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from ace_claude_code.sessions.home import project_key
from tests.claude_code.samples import assistant, user
from tests.claude_code.stored_world import (
    CONFIG,
    arguments,
    key_of,
    learn,
    learned,
    learned_skills,
    start_learning,
    store,
    turn,
)
from tests.support.command_line import Run
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of which no session is stored yet."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def everything(words: tuple[str, ...] = WORDS) -> tuple[list[str], list[str]]:
    questions = [f"Do the job {word}." for word in sorted(words)]
    return questions, learned_skills(words)


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def test_two_at_once_learn_each_turn_once(server: ScriptedServer, project: Path) -> None:
    for word in WORDS:
        store(project, word, *turn(word))
    both = [start_learning(server, project) for _ in range(2)]
    reports = [json.loads(process.communicate()[0]) for process in both]
    assert sorted(report["turns_learned"] for report in reports) == [0, len(WORDS)]
    assert sorted(report["turns_known"] for report in reports) == [0, len(WORDS)]
    assert learned(project) == everything()
    assert len(server.by_role("reflector")) == len(WORDS)


def test_a_lesson_that_no_one_judged_stays_out_of_the_skills(
    here: Run, server: ScriptedServer, project: Path, tmp_path: Path
) -> None:
    store(project, "alpha", *turn("alpha"))
    done = here(*arguments(server, project), folder=project.parent, environ={**CONFIG, "ACE_UNPROVEN": "pending"})
    assert done.data["turns_learned"] == 1
    assert learned(project) == (["Do the job alpha."], [])
    book = project.parent / ".claude" / "ace" / "projects" / key_of(project) / "skillbook.db"
    [pending] = here("review", str(book), "--json").data["pending"]
    assert pending["content"] == "Remember LESSON alpha."
    assert here("review", str(book), "--accept", pending["id"]).code == 0
    assert learned(project)[1] == learned_skills(("alpha",))


def test_a_killed_learner_is_taken_up_and_pays_no_recorded_answer_twice(here: Run, project: Path) -> None:
    seed = random.randrange(1_000_000)
    print("seed", seed)  # to find the kill points of a failed run again
    chosen = random.Random(seed)
    # Half of the turns teach nothing, so that no skill tells that they were learned from.
    for number, word in enumerate(WORDS):
        silent = [user(f"Do the job {word}.", f"u-{word}"), assistant("Done.", f"a-{word}", f"u-{word}")]
        store(project, word, *(turn(word) if number % 2 else silent))
    answer, last, is_killed = learning_script(), 0, threading.Event()

    def held(request: ScriptedRequest) -> Any:
        if request.number > last:  # so the learner has not learned everything before it is killed
            is_killed.wait()
        return answer(request)

    answered_at_most = [1, 1, 1, 2, 2, 2]
    chosen.shuffle(answered_at_most)
    with ScriptedServer(held) as server:
        for calls in answered_at_most:
            is_killed.clear()
            before = len(server.requests)
            last = before + calls
            process = start_learning(server, project)
            while len(server.requests) == before:
                time.sleep(0.0005)
            time.sleep(chosen.choice([0, 0.02, 0.1]))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            is_killed.set()
            server.wait_until_idle()
        assert learn(here, server, project).code == 0
        questions, skills = learned(project)
        assert sorted(set(questions)) == everything()[0]
        assert skills == learned_skills(WORDS[1::2])
        # Only what was under way at a kill is asked again: one session is learned from at a time.
        assert len(server.requests) <= 2 * len(WORDS) + len(answered_at_most)
        server.clear()
        assert learn(here, server, project).data["turns_known"] == len(WORDS)
        assert server.requests == []


def test_a_session_that_has_grown_is_new_in_its_new_turns(here: Run, server: ScriptedServer, project: Path) -> None:
    store(project, "s", *turn("alpha"))
    assert learn(here, server, project).data["turns_learned"] == 1
    second = [user("Do the job beta.", "u-beta", "a-alpha"), assistant("LESSON beta", "a-beta", "u-beta")]
    store(project, "s", *turn("alpha"), *second)
    grown = learn(here, server, project).data
    assert (grown["turns_learned"], grown["turns_known"]) == (1, 1)


def test_a_turn_under_way_is_left_for_later(here: Run, server: ScriptedServer, project: Path) -> None:
    begun = {**assistant("", "a-beta", "u-beta"), "message": {"id": "m", "content": [bash("ls")]}}
    asked = user("Do the job beta.", "u-beta", "a-alpha")
    path = store(project, "s", *turn("alpha"), asked, begun)
    first = learn(here, server, project)
    assert (first.code, first.data["turns_learned"], first.data["turns_unfinished"]) == (0, 1, 1)
    # Nobody has written for an hour: it was broken off, and that teaches too.
    os.utime(path, (time.time() - 3600,) * 2)
    later = learn(here, server, project).data
    assert (later["turns_learned"], later["turns_known"], later["turns_unfinished"]) == (1, 1, 0)


def bash(command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": command}}


def test_ctrl_c_ends_after_what_is_under_way_and_the_next_run_goes_on(here: Run, project: Path) -> None:
    answer, is_noticed = learning_script(), threading.Event()

    def held(request: ScriptedRequest) -> Any:
        if request.number >= 3:
            is_noticed.wait()
        return answer(request)

    with ScriptedServer(held) as server:
        for word in WORDS:
            store(project, word, *turn(word))
        process = start_learning(server, project)
        assert process.stderr is not None
        wait_until(lambda: len(server.requests) >= 3)
        process.send_signal(signal.SIGINT)
        try:
            assert any(b"stopping after the current turns" in line for line in process.stderr)
        finally:
            is_noticed.set()
        out, _ = process.communicate()
        assert process.returncode == 130
        report = json.loads(out)
        assert 0 < report["turns_learned"] < len(WORDS)
        rest = learn(here, server, project).data
        assert (rest["turns_known"], rest["turns_learned"]) == (
            report["turns_learned"],
            len(WORDS) - report["turns_learned"],
        )
        assert learned(project) == everything()


def test_a_session_without_a_prompt_is_counted_and_is_no_failure(
    here: Run, server: ScriptedServer, project: Path
) -> None:
    store(project, "a", *turn("alpha"))
    path = store(project, "b", user("<command-name>/cost</command-name>", "u1"))
    done = learn(here, server, project)
    assert (done.code, done.data["turns_learned"], done.data["without_prompt"]) == (0, 1, [str(path)])


def test_a_skillbook_of_a_newer_release_keeps_no_other_project_from_learning(
    here: Run, server: ScriptedServer, project: Path
) -> None:
    other = project.with_name("other")
    mine, theirs = store(project, "a", *turn("alpha")), store(other, "b", *turn("beta"))
    second = store(project, "c", *turn("gamma"))
    book = project.parent / ".claude" / "ace" / "projects" / key_of(project) / "skillbook.db"
    book.parent.mkdir(parents=True)
    Skillbook.open(book).close()
    newer_release_of(book)
    before = book.read_bytes()
    paths = [str(path) for path in (mine, theirs, second)]
    learning = arguments(server, project)[:-3]
    done = here(*learning, *paths, folder=project.parent, environ=CONFIG)
    assert (done.code, done.data["sessions"], done.data["turns_learned"]) == (1, 3, 1)
    assert [problem.partition(": ")[0] for problem in done.data["problems"]] == [str(mine), str(second)]
    assert "upgrade ace" in done.data["problems"][0]
    assert book.read_bytes() == before
    assert learned(other) == everything(("beta",))


def newer_release_of(book: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(book)) as database:
        database.execute("pragma user_version = 99")


def test_with_nothing_to_do_it_says_what_could_be_done(here: Run, project: Path) -> None:
    done = here("claude-code", "learn", folder=project.parent, environ=CONFIG)
    assert (done.code, done.out) == (
        0,
        "No session is queued. To learn from every stored session of this folder, add --all.\n",
    )


def test_without_a_key_it_ends_with_the_first_session(here: Run, project: Path) -> None:
    for word in WORDS:
        store(project, word, *turn(word))
    learning = ["claude-code", "learn", "--all", "--project", str(project), "--model", "openai/gpt-4o-mini"]
    done = here(*learning, folder=project.parent, environ=CONFIG)
    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err
    assert len(done.err.splitlines()) < len(WORDS)


@pytest.mark.parametrize("name", ["🦊 döns", "long-" * 50])
def test_a_copy_of_a_transcript_is_of_the_project_in_which_it_ran(
    here: Run, name: str, server: ScriptedServer, project: Path
) -> None:
    # Claude Code counts an emoji as two characters, and cuts a long name and adds a hash.
    folder = project.with_name(name)
    key = key_of(project.parent) + ("----d-ns" if len(name) < 20 else "-long" * 10 + "-1x2y3z")
    stored = store(project, "s", *({**record, "cwd": str(folder)} for record in turn("alpha")))
    moved = stored.parent.with_name(key)
    stored.parent.rename(moved)
    copy = project / "copy.jsonl"
    copy.write_bytes((moved / "s.jsonl").read_bytes())
    done = here(*arguments(server, project)[:-3], str(copy), folder=project.parent, environ=CONFIG)
    assert done.data["turns_learned"] == 1
    [book] = (project.parent / ".claude" / "ace" / "projects").glob("*/skillbook.db")
    assert book.parent.name == project_key(folder)
    assert len(book.parent.name) < 255
    if len(name) < 20:
        assert book.parent.name == key
