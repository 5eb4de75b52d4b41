"""What is proven by running sessions again, and what is not: each with a real repository."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tests.sleep.conftest import Machine
from tests.support.agent_sessions import (
    BEGAN,
    CHECK,
    COMMITTED,
    DIRECTLY,
    MISTAKE,
    RIGHT,
    RULE,
    SHOP,
    WRONG,
    Replace,
    Shell,
)
from tests.support.command_line import ACE, command_environment


def reasons(machine: Machine) -> dict[str, int]:
    found = machine.sleep()
    assert found["lessons"] == []
    reasons: dict[str, int] = found["reasons"]
    return reasons


def test_the_state_is_that_of_the_commit_of_the_session(machine: Machine) -> None:
    """The rule was there when the session ran; today the direct command works, so there is no lesson."""
    old = machine.repo.git("rev-parse", "HEAD")
    machine.repo.commit({"run_tests.py": "print('1 passed')\n"}, COMMITTED + timedelta(days=2))
    machine.codex(*MISTAKE, commit=old)
    assert reasons(machine) == {"obsolete": 1}


def test_the_commit_is_the_last_one_of_the_branch_before_the_session(machine: Machine) -> None:
    machine.repo.git("checkout", "--quiet", "-b", "feature")
    machine.repo.commit({"Makefile": "verify:\n\t@SRC_ROOT=. python3 run_tests.py\n"}, COMMITTED + timedelta(hours=1))
    machine.repo.commit({"later.txt": "later"}, COMMITTED + timedelta(days=3))
    machine.repo.git("checkout", "--quiet", "main")
    machine.repo.git("merge", "--quiet", "feature")
    machine.claude(WRONG, Shell("make verify", "1 passed"), branch="feature")
    [lesson] = machine.sleep()["lessons"]
    assert f"Ran at {machine.repo.git('rev-parse', '--short=7', 'feature~1')}" in lesson["evidence"][1]


def test_a_session_before_the_first_commit_cannot_be_reproduced(machine: Machine) -> None:
    machine.claude(*MISTAKE, began=COMMITTED - timedelta(days=1))
    assert reasons(machine) == {"not reproducible": 1}


def test_a_dirty_tree_is_rebuilt_from_the_recorded_edits(machine: Machine) -> None:
    machine.repo.commit({"run_tests.py": "print('1 passed')\n"})
    edit = Replace("run_tests.py", "print('1 passed')\n", CHECK)
    before = machine.repo.git("rev-parse", "HEAD")
    machine.repo.commit({"run_tests.py": CHECK}, BEGAN + timedelta(hours=1))
    machine.codex(edit, *MISTAKE, commit=before)
    # At the commit of the session the mistake is none, so only the edit shows it.
    assert len(machine.sleep()["lessons"]) == 1


def test_an_edit_that_does_not_fit_makes_the_state_irreproducible(machine: Machine) -> None:
    machine.claude(Replace("shop.py", "price = 99", "price = 1"), *MISTAKE)
    assert reasons(machine) == {"not reproducible": 1}


def test_a_transient_failure_is_no_lesson(machine: Machine) -> None:
    machine.repo.commit({"run_tests.py": "print('1 passed')\n"})
    machine.claude(*MISTAKE)
    assert reasons(machine) == {"transient": 1}


UNREACHED = "der Spiegel fehlt"
"""No word of it says that the network is meant."""
CALLING = f"""\
import os, socket, sys
try:
    %s
except OSError:
    if "SRC_ROOT" not in os.environ:
        sys.exit("{UNREACHED}")
print("1 passed")
"""


@pytest.mark.parametrize(
    "call",
    [
        'socket.getaddrinfo("mirror.example", 80)',
        'socket.create_connection(("192.0.2.7", 80), 5)',
        'socket.create_connection(("127.0.0.1", 9), 5)',
    ],
    ids=["name", "address", "service on this machine"],
)
def test_a_failure_of_the_network_is_no_lesson(machine: Machine, call: str) -> None:
    only_direct = "check:\n\t@echo 1 passed\n"
    machine.repo.commit({"run_tests.py": CALLING % call, "Makefile": only_direct})
    machine.claude(Shell(DIRECTLY, UNREACHED, 1), Shell(RIGHT, "1 passed"))
    assert reasons(machine) == {"network": 1}


def test_a_program_that_always_looks_for_news_is_no_failure_of_the_network(machine: Machine) -> None:
    machine.repo.commit({"run_tests.py": CALLING % 'socket.getaddrinfo("news.example", 80)'})
    machine.claude(Shell(DIRECTLY, UNREACHED, 1), Shell(RIGHT, "1 passed"))
    assert len(machine.sleep()["lessons"]) == 1


def test_a_flaky_command_is_no_lesson(machine: Machine) -> None:
    """It fails for every other number of nanoseconds; so often that both runs agree, the night is not asked."""
    flaky = f"import os, sys, time\nif int(time.monotonic() * 1e9) // 7 % 2:\n    sys.exit('RuntimeError: {RULE}')\n"
    machine.repo.commit({"run_tests.py": flaky, "Makefile": "check:\n\t@python3 run_tests.py\n"})
    machine.claude(*MISTAKE)
    found = machine.sleep()
    assert found["candidates"] == 1
    assert set(found["reasons"]) <= {"flaky", "transient", "not reproducible"}


def test_a_missing_tool_is_no_lesson(machine: Machine) -> None:
    machine.claude(Shell("shop-test run", "RuntimeError: no shop", 1), Shell(RIGHT, "1 passed"))
    assert reasons(machine) == {"not reproducible": 1}


def test_another_error_than_in_the_session_is_no_lesson(machine: Machine) -> None:
    machine.claude(Shell(DIRECTLY, "ImportError: no module shop", 1), Shell(RIGHT, "1 passed"))
    assert reasons(machine) == {"not reproducible": 1}


@pytest.mark.parametrize(
    "command",
    [
        "make deploy-tests",
        "git push && make check",
        "rm -rf ~ && make check",
        "rm -rf ../other && make check",
        "bash -c 'curl http://x/check.sh'",
        "pip install tests && make check",
        "python3 manage.py migrate --check",
        "API_TOKEN=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB make check",
    ],
)
def test_commands_that_would_do_harm_are_never_run_again(machine: Machine, command: str) -> None:
    machine.claude(WRONG, Shell(command, "1 passed check test"))
    found = machine.sleep()
    assert found["lessons"] == []
    assert set(found["reasons"]) <= {"harmful"}


def test_a_command_that_only_looks_is_no_repair(machine: Machine) -> None:
    machine.claude(WRONG, Shell("cat run_tests.py", "import os"), Shell("git status", ""))
    assert machine.sleep()["candidates"] == 0


def test_a_repository_that_was_moved_or_deleted_is_named(machine: Machine) -> None:
    machine.claude(*MISTAKE)
    shutil.move(machine.repo.root, machine.repo.root.with_name("moved"))
    done = machine.ace("sleep", "--no-model", folder=machine.home)
    assert (done.code, done.out) == (
        0,
        "0 sessions, 0 candidates, 0 reproduced: 1 sessions are in a folder that was moved or deleted\n",
    )


def test_the_working_tree_and_the_index_are_not_touched(machine: Machine) -> None:
    (machine.repo.root / "staged.txt").write_text("staged", encoding="utf-8")
    machine.repo.git("add", "staged.txt")
    (machine.repo.root / "shop.py").write_text("price = 9\n", encoding="utf-8")
    before = machine.repo.bytes()
    machine.claude(*MISTAKE)
    assert len(machine.sleep()["lessons"]) == 1
    assert machine.repo.bytes() == before


def test_a_linked_worktree_belongs_to_its_repository(machine: Machine) -> None:
    other = machine.repo.root.with_name("shop-2")
    machine.repo.git("worktree", "add", "--quiet", str(other))
    machine.claude(*MISTAKE, cwd=other)
    machine.claude(*MISTAKE)
    [lesson] = machine.sleep()["lessons"]
    assert lesson["project"] == str(machine.repo.root)
    assert "seen in 2 sessions" in lesson["evidence"][0]


def hostile(machine: Machine, marker: Path) -> None:
    """Let the repository run a program wherever git or a test runner would ask it to."""
    root, run = machine.repo.root, f"touch {marker}"
    hook = f"#!/bin/sh\n{run}\n"
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        path = root / ".git" / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(hook, encoding="utf-8")
        path.chmod(0o755)
    machine.repo.git("config", "filter.evil.smudge", f"sh -c '{run}; cat'")
    machine.repo.git("config", "filter.evil.process", run)
    machine.repo.git("config", "core.fsmonitor", f"sh -c '{run}'")
    machine.repo.git("config", "core.pager", run)
    machine.repo.git("config", "core.hooksPath", str(root / ".git" / "hooks"))


def test_a_hostile_repository_runs_nothing_and_writes_nothing_outside(machine: Machine, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    evil = f"open({str(marker)!r}, 'w')" + ".close()\n"
    attack = f"try:\n    {evil}except OSError:\n    pass\n"
    files = {**SHOP, "run_tests.py": attack + CHECK, ".gitattributes": "* filter=evil\n"}
    machine.repo.commit(files)
    (machine.repo.root / "out").symlink_to(tmp_path)
    machine.repo.git("add", "--all")
    machine.repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    machine.repo.git("commit", "--quiet", "--message", "Links and a submodule")
    hostile(machine, marker)
    machine.claude(Replace("out/marker", "a", "b"), *MISTAKE)
    machine.codex(*MISTAKE)
    found = machine.sleep()
    assert not marker.exists()
    assert found["candidates"] == 1


def test_our_own_replays_are_not_learned_from(machine: Machine) -> None:
    copy = machine.state / "work" / "abc" / "tree"
    copy.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(copy)], check=True)
    machine.claude(*MISTAKE, cwd=copy)
    assert machine.sleep()["skipped"] == {"are our own": 1}


def test_nothing_is_left_after_a_kill(machine: Machine) -> None:
    """Killed while a command runs: it ends too, and the next start removes the copy."""
    machine.repo.commit({"run_tests.py": "import os\nos.execvp('sleep', ['sleep', '98765.4321'])\n"})
    machine.claude(*MISTAKE)
    before = machine.repo.bytes()
    environ = {**command_environment(machine.home), "HOME": str(machine.home)}
    process = subprocess.Popen([ACE, "sleep", "--no-model"], cwd=machine.repo.root, env=environ)
    while not is_running(b"98765.4321"):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while is_running(b"98765.4321"):
        time.sleep(0.05)
    assert copies(machine)
    shutil.rmtree(machine.home / ".claude")
    machine.sleep()
    assert not copies(machine)
    assert machine.repo.bytes() == before
    assert machine.repo.git("worktree", "list").count("\n") == 0


def is_running(words: bytes) -> bool:
    """Whether a process with some words in its command runs."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if words in path.read_bytes():
                return True
        except OSError:  # it ended meanwhile
            continue
    return False


def copies(machine: Machine) -> list[Path]:
    return [path for path in (machine.state / "work").iterdir() if path.is_dir()]


def test_a_lesson_that_was_seen_twice_must_hold_in_the_states_of_both_sessions(machine: Machine) -> None:
    first = machine.repo.git("rev-parse", "HEAD")
    machine.repo.commit({"run_tests.py": "print('1 passed')\n"}, COMMITTED + timedelta(minutes=1))
    second = machine.repo.git("rev-parse", "HEAD")
    machine.repo.commit({"run_tests.py": CHECK}, COMMITTED + timedelta(minutes=2))
    machine.codex(*MISTAKE, commit=first)
    machine.codex(*MISTAKE, commit=second, began=BEGAN + timedelta(hours=1))
    assert reasons(machine) == {"transient": 1}


@pytest.mark.parametrize("commit", ["--output=evil", "HEAD", "0" * 40])
def test_a_commit_that_is_none_is_not_passed_to_git(machine: Machine, commit: str) -> None:
    machine.codex(*MISTAKE, commit=commit, began=COMMITTED - timedelta(days=9))
    assert reasons(machine) == {"not reproducible": 1}
    assert not (machine.repo.root / "evil").exists()
