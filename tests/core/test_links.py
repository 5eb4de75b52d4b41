"""A link that a cloned project contains has nothing appended to its target, and replaces nothing there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ace import Skillbook
from ace.cli.learning.event_log import EventLog
from ace.integrations import append_line, file_lock, passing_lock, replace_file, write_managed_block
from ace.protocols.observers import RunStarted
from ace.redaction import Redactor
from ace.skillbook import SkillbookFileError
from tests.support.command_line import ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

NAME = "run-$(touch PWNED).jsonl"


def locked(path: Path) -> None:
    with file_lock(path):
        pass


def locked_in_passing(path: Path) -> None:
    with passing_lock(path):
        pass


def stored(path: Path) -> None:
    with Skillbook.open(path) as book:
        book.add_skill("a", "One.")


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "append": (".jsonl", lambda path: append_line(path, "{}")),
    "replace": (".json", lambda path: replace_file(path, b"{}")),
    "block": (".md", lambda path: write_managed_block(path, "One.")),
    "lock": (".lock", locked),
    "passing lock": (".lock", locked_in_passing),
    "store": (".db", stored),
    "json book": (".json", lambda path: Skillbook().save_to_file(path)),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in the home folder of a user with a profile."""
    (tmp_path / ".profile").write_text("# mine\n", encoding="utf-8")
    project = tmp_path / "repo"
    project.mkdir()
    return project


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("kind", WRITERS)
def test_nothing_is_written_through_a_link_out_of_the_folder(project: Path, kind: str, exists: bool) -> None:
    suffix, write = WRITERS[kind]
    target = project.parent / f"other{suffix}"
    if exists:
        target.touch()
    (project / f"file{suffix}").symlink_to(f"../other{suffix}")
    with pytest.raises((OSError, SkillbookFileError), match="is a link to"):
        write(project / f"file{suffix}")
    assert target.exists() == exists and not (exists and target.stat().st_size)
    assert {path.name for path in project.parent.iterdir()} == {".profile", "repo", *([target.name] if exists else [])}


@pytest.mark.parametrize("kind", ["replace", "block", "store", "json book"])
def test_a_link_within_the_folder_to_a_file_of_the_same_kind_is_followed(project: Path, kind: str) -> None:
    suffix, write = WRITERS[kind]
    (project / f"file{suffix}").symlink_to(f"kept{suffix}")
    write(project / f"file{suffix}")
    assert (project / f"kept{suffix}").stat().st_size and (project / f"file{suffix}").is_symlink()


def test_a_block_is_not_written_into_a_script_of_the_same_folder(project: Path) -> None:
    (project / "activate").write_text("# mine\n", encoding="utf-8")
    (project / "AGENTS.md").symlink_to("activate")
    with pytest.raises(OSError, match="is a link to"):
        write_managed_block(project / "AGENTS.md", "$(touch PWNED)")
    assert (project / "activate").read_text(encoding="utf-8") == "# mine\n"


@pytest.mark.parametrize("kind", ["append", "passing lock"])
def test_a_link_that_comes_and_goes_is_never_followed(project: Path, kind: str) -> None:
    """Another process replaces the file by a link and back, while lines are appended."""
    suffix, write = WRITERS[kind]
    path, profile = project / f"file{suffix}", project.parent / ".profile"
    swap = (
        "import os, sys\nfile, link, target = sys.argv[1:]\n"
        "while os.getppid() == int(os.environ['PARENT']):\n"
        "    os.symlink(target, link); os.replace(link, file)\n"
        "    open(link, 'wb').close(); os.replace(link, file)\n"
    )
    command = [sys.executable, "-c", swap, str(path), str(project / "new"), str(profile)]
    with subprocess.Popen(command, env={**os.environ, "PARENT": str(os.getpid())}) as swapping:
        try:
            for _ in range(2000):
                with suppress(OSError):
                    write(path)
        finally:
            swapping.kill()
    assert profile.read_text(encoding="utf-8") == "# mine\n"


def test_a_failed_trace_is_not_recorded_in_a_file_of_the_user(project: Path, server: ScriptedServer) -> None:
    (project / "failures.jsonl").symlink_to("../.profile")
    (project / NAME).write_text(json.dumps({"task": "t", "answer": "a"}), encoding="utf-8")
    server.script = lambda request: "ready" if "ready" in request.text else "no JSON"
    model = ("--model", "openai/m", "--api-base", server.api_base)
    environ = {"OPENAI_API_KEY": "sk-test-12345678", "HOME": str(project.parent)}
    done = ace("learn", NAME, "--yes", *model, folder=project, environ=environ)
    assert done.code == 2 and "failures.jsonl" in done.err and "is a link to" in done.err
    assert server.requests == []
    assert (project.parent / ".profile").read_text(encoding="utf-8") == "# mine\n"


@pytest.mark.parametrize("link", ["logs", "logs/execution_traces.jsonl"])
def test_a_captured_attempt_is_not_recorded_in_a_file_of_the_user(project: Path, link: str) -> None:
    (project / link).parent.mkdir(exist_ok=True)
    (project / link).symlink_to(project.parent if link == "logs" else project.parent / ".profile")
    done = ace("capture", "--task", "t", "--outcome", "success", "--description", "x $(touch PWNED)", folder=project)
    assert done.code and "link" in done.err
    assert {path.name for path in project.parent.iterdir() if not path.name.startswith(".")} == {"repo"}
    assert (project.parent / ".profile").read_text(encoding="utf-8") == "# mine\n"


def test_the_log_of_a_run_is_not_written_through_a_link(project: Path, server: ScriptedServer) -> None:
    (project / "run.jsonl").symlink_to("../.profile")
    (project / "t.json").write_text(json.dumps({"task": "t", "answer": "LESSON a"}), encoding="utf-8")
    model = ("--model", "openai/m", "--api-base", server.api_base)
    environ = {"OPENAI_API_KEY": "sk-test-12345678"}
    done = ace("learn", "t.json", "--yes", "--log", "run.jsonl", *model, folder=project, environ=environ)
    assert "is a link to" in done.err
    assert (project.parent / ".profile").read_text(encoding="utf-8") == "# mine\n"


APPENDING: dict[str, Callable[[Path], None]] = {
    "append": lambda path: append_line(path, "{}"),
    "event log": lambda path: EventLog(path, Redactor(), max_bytes=1)(RunStarted("r", "t", 1, 1, False, False)),
}


@pytest.mark.parametrize("kind", APPENDING)
@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_an_open_file_of_the_process_can_be_written_to(tmp_path: Path, kind: str, folder: str) -> None:
    if not Path(folder).is_dir():
        pytest.skip(f"this system has no {folder}")
    with (tmp_path / "err").open("ab") as file:
        file.write(b"before\n")
        file.flush()
        for _ in range(2):
            APPENDING[kind](Path(folder) / str(file.fileno()))
    before, *lines = (tmp_path / "err").read_text(encoding="utf-8").splitlines()
    assert before == "before" and [type(json.loads(line)) for line in lines] == [dict, dict]
    assert [path.name for path in tmp_path.iterdir()] == ["err"], "what the user has redirected is not rotated"


def test_a_device_can_be_written_to() -> None:
    APPENDING["event log"](Path(os.devnull))


def test_a_link_of_a_project_to_a_device_is_not_followed(project: Path) -> None:
    (project / "log").symlink_to("/dev/stderr")
    for write in APPENDING.values():
        with pytest.raises(OSError, match="is a link to"):
            write(project / "log")


def test_events_can_be_logged_to_standard_error(project: Path, server: ScriptedServer) -> None:
    (project / "t.jsonl").write_text('{"task": "t", "answer": "LESSON glass"}\n', encoding="utf-8")
    server.script = learning_script()
    model = ("--model", "openai/scripted", "--api-base", server.api_base)
    done = ace("learn", "t.jsonl", *model, "--log", "/dev/stderr", "--json", folder=project)
    assert (done.code, done.data["traces"]["learned"]) == (0, 1), done.err
    events = [json.loads(line)["event"] for line in done.err.splitlines() if line.startswith("{")]
    assert "SampleEnded" in events and events[-1] == "RunEnded"
