"""What a replayed command can do: nothing outside its copy of the repository."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ace_sleep.repository import copy_at, find_repository
from ace_sleep.sandbox import Limits, Outcome, Place, RefusedError, Sandbox, sandboxes
from tests.requirement import missing
from tests.support.agent_sessions import Repo, new_repo

Run = Callable[..., Outcome]
ISOLATING = ["bubblewrap", "unshare"]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return new_repo(tmp_path / "shop")


def named(name: str) -> Sandbox:
    found = next((sandbox for sandbox in sandboxes() if sandbox.name == name), None)
    return found or missing(name, f"the sandbox {name} does not work here")


def copied(repo: Repo, folder: Path, sandbox: Sandbox) -> Place:
    found = find_repository(str(repo.root))
    assert found is not None
    return copy_at(found, found.head(), folder / "copy", shows_copy_as_root=sandbox.shows_copy_as_root)


@pytest.fixture(params=ISOLATING)
def run(request: pytest.FixtureRequest, repo: Repo, tmp_path: Path) -> Run:
    sandbox = named(str(request.param))
    place = copied(repo, tmp_path, sandbox)

    def run(command: str, limits: Limits | None = None) -> Outcome:
        return sandbox.run(command, place, limits=limits)

    return run


def test_the_copy_is_found_at_the_path_of_the_repository(run: Run, repo: Repo) -> None:
    (repo.root / "untracked.txt").write_text("of the user", encoding="utf-8")
    found = run("pwd; ls; git log --oneline | wc -l; git status --porcelain")
    assert found.output.split() == [str(repo.root), "Makefile", "run_tests.py", "shop.py", "1"]


def test_nothing_outside_the_copy_can_be_written(run: Run, repo: Repo, tmp_path: Path) -> None:
    before = repo.bytes()
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    home = Path.home()
    script = f"echo x > shop.py; echo x > {victim}; rm -rf {repo.root}/.git; echo x > {home}/evil; echo x > /etc/evil"
    run(f"({script}); ln -sf {victim} link; echo x > link; true")
    assert repo.bytes() == before
    assert victim.read_text("utf-8") == "mine"
    assert not (home / "evil").exists()
    assert not Path("/etc/evil").exists()


def test_the_home_folder_is_another_one_and_the_environment_is_not_inherited(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_USER", "tell no one")
    found = run('test "$HOME" != "' + str(Path.home()) + '" && echo a > "$HOME/a" && env')
    assert found.worked
    assert "tell no one" not in found.output


def test_files_of_the_user_cannot_be_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("private key", encoding="utf-8")
    assert "private key" not in run(f"cat {tmp_path}/key").output


def test_there_is_no_network_and_no_socket_of_another_program(run: Run) -> None:
    script = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    assert not run(f'python3 -c "{script}"').worked
    assert run("ls /run").output == ""


def test_the_rights_of_the_sandbox_cannot_be_raised(run: Run) -> None:
    assert not run("mount -o remount,rw /").worked
    assert "0000000000000000" in run("grep CapEff /proc/self/status").output
    assert not run("unshare --user --map-root-user true").worked


@pytest.mark.parametrize(
    ("command", "limit"),
    [
        ("sleep 100", "time"),
        ("f() { f | f & }; f; sleep 20", "processes"),
        ("cat /dev/zero", "output"),
        ("python3 -c 'import time; a = b\"x\" * (300 << 20); time.sleep(20)'", "memory"),
    ],
)
def test_a_command_is_ended_at_a_limit(run: Run, command: str, limit: str) -> None:
    limits = Limits(seconds=3 if limit == "time" else 15, processes=40, memory_bytes=200 << 20, output_bytes=1 << 20)
    found = run(command, limits)
    assert (found.exit_code, found.limit) == (None, limit)


def test_a_process_in_the_background_ends_with_the_command(run: Run) -> None:
    found = run("sleep 987654 & echo started")
    assert found.output == "started\n"
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not any(b"987654" in line for line in lines)


def test_installed_packages_of_the_repository_can_be_read_only(run: Run, repo: Repo) -> None:
    (repo.root / "node_modules").mkdir()
    (repo.root / "node_modules" / "a.js").write_text("1", encoding="utf-8")
    assert run("cat node_modules/a.js").output == "1"
    assert not run("echo 2 > node_modules/a.js").worked
    assert (repo.root / "node_modules" / "a.js").read_text("utf-8") == "1"


def test_without_a_sandbox_only_listed_commands_run(repo: Repo, tmp_path: Path) -> None:
    sandbox = named("none")
    place = copied(repo, tmp_path, sandbox)
    for command in ("make check", "python3 run_tests.py", "pytest; ls", "pytest $(ls)", f"pytest {repo.root}"):
        with pytest.raises(RefusedError):
            sandbox.run(command, place)
    text = "import unittest\nclass A(unittest.TestCase):\n    def test(self): pass\n"
    (place.tree / "test_a.py").write_text(text, encoding="utf-8")
    assert sandbox.run("python3 -m unittest test_a", place).worked
