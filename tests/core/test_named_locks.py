"""Locks by name on one file: between threads, stores and processes, also when one is killed or forks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ace.skillbook.sqlite_store import SqliteStore

HOLD = """
import sys
from pathlib import Path
from ace.skillbook.sqlite_store import SqliteStore
with SqliteStore(Path(sys.argv[1])).run_lock(sys.argv[2]) as is_held:
    print(is_held, flush=True)
    sys.stdin.read()
"""
COUNT = """
import sys
from pathlib import Path
from ace.skillbook.sqlite_store import SqliteStore
store, counter = SqliteStore(Path(sys.argv[1])), Path(sys.argv[2])
for _ in range(200):
    while True:
        with store.run_lock("counter") as is_held:
            if is_held:
                counter.write_text(str(int(counter.read_text()) + 1))
                break
"""
OWN_NAME = """
import sys
from pathlib import Path
from ace.skillbook.sqlite_store import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
for number in range(300):
    with store.run_lock(f"{sys.argv[2]} {number}") as is_held:
        assert is_held, number
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "skills.db"


def locks(path: Path) -> list[Path]:
    return list(path.parent.glob(".ace-run-*.lock"))


def run(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def held_elsewhere(path: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    with run(HOLD, path, name) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        yield process
        process.kill()


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def is_free(store: SqliteStore, name: str) -> bool:
    with store.run_lock(name) as is_held:
        return is_held


def test_many_locks_need_one_open_file(path: Path) -> None:
    store = SqliteStore(path)
    before = open_files()
    with ExitStack() as held:
        for number in range(5000):
            assert held.enter_context(store.run_lock(f"content {number}"))
        assert len(locks(path)) == 1
        assert open_files() <= before + 1
        assert not is_free(SqliteStore(path), "content 7"), "two stores of one process share their locks"
    assert not locks(path)


def test_a_lock_ends_with_its_process(path: Path) -> None:
    store = SqliteStore(path)
    with held_elsewhere(path, "run") as process:
        assert not is_free(store, "run")
        assert is_free(store, "another")
        assert locks(path), "the file is needed while another process has a lock on it"
        process.kill()
        process.wait()
        assert is_free(store, "run")
    assert not locks(path)


def test_a_forked_child_has_no_locks_and_releases_none(path: Path) -> None:
    store = SqliteStore(path)
    with store.run_lock("run") as is_held:
        assert is_held
        child = os.fork()
        if child == 0:
            os._exit(0 if not is_free(store, "run") and is_free(store, "another") else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with run(HOLD, path, "run") as other:
            assert other.stdout is not None and other.stdout.readline() == "False\n", "the child has released it"
            other.kill()


def test_only_one_process_at_a_time_has_a_lock(path: Path, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [run(COUNT, path, counter) for _ in range(3)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert counter.read_text() == "600"


def test_no_one_is_refused_because_the_file_is_being_deleted(path: Path) -> None:
    processes = [run(OWN_NAME, path, str(number)) for number in range(4)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert not locks(path)


def test_a_file_that_was_deleted_while_it_was_used_is_made_again(path: Path) -> None:
    store = SqliteStore(path)
    with store.run_lock("first") as first:
        locks(path)[0].unlink()
        with held_elsewhere(path, "second"):
            assert not is_free(store, "second")
            assert (first, is_free(store, "third")) == (True, True)
    assert is_free(store, "first")
