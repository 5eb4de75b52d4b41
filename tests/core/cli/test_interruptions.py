"""Ctrl-C, a second Ctrl-C and SIGTERM at known moments of a run."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import ACE, ace, command_environment
from tests.support.learning_script import learning_script
from tests.support.local_models import needed_model
from tests.support.scripted_server import Reply, ScriptedRequest, ScriptedServer

TRACES = 40


@pytest.fixture
def many(tmp_path: Path) -> Path:
    path = tmp_path / "many.jsonl"
    lines = [{"task": f"t{number}", "answer": f"LESSON w{number}"} for number in range(TRACES)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def started(folder: Path, server: ScriptedServer, *arguments: str) -> subprocess.Popen[str]:
    command = [str(ACE), "learn", "many.jsonl", "--model", "openai/scripted", "--api-base", server.api_base, *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=command_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until_asked(server: ScriptedServer, role: str, times: int, process: subprocess.Popen[str]) -> None:
    while len(server.by_role(role)) < times:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def announced(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send a signal, and return standard error up to the line that announces it."""
    assert process.stderr is not None
    process.send_signal(number)
    err = ""
    for line in process.stderr:
        err += line
        if "stop" in line or "interrupted" in line:
            break
    return err


def ended_by_two(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send a signal twice, the second time when the first one was announced, and return standard error at the end."""
    assert process.stderr is not None
    with process:
        err = announced(process, number)
        process.send_signal(number)
        return err + process.stderr.read()


def taught(path: Path) -> list[str]:
    with Skillbook.open(path) as book:
        return [source.trace_id for skill in book.skills() for source in skill.sources]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("role", ["reflector", "skill_manager"])
def test_the_first_signal_finishes_what_is_under_way_and_resume_does_the_rest(
    tmp_path: Path, many: Path, number: signal.Signals, role: str
) -> None:
    release = threading.Event()
    answer = learning_script(delay=0.1)

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if request.role == "reflector" and len(server.by_role("reflector")) > TRACES / 2:
            release.wait(600)  # so that the run cannot end before it is interrupted
        return answer(request)

    with ScriptedServer(script) as server:
        process = started(tmp_path, server)
        wait_until_asked(server, role, 5, process)
        while not taught(tmp_path / "skills.db"):
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        err = announced(process, number)
        release.set()
        assert process.stdout is not None and process.stderr is not None
        with process:
            out, err = process.stdout.read(), err + process.stderr.read()
        asked = {request.text for request in server.answered if request.role == "reflector"}
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "Ctrl-C again" in err and "--resume" in err.splitlines()[-1]
    learned = taught(tmp_path / "skills.db")
    assert 0 < len(learned) < TRACES
    [counted] = [line.split()[-1] for line in out.splitlines() if line.startswith("traces learned")]
    assert int(counted) == len(learned)
    with ScriptedServer(learning_script()) as server:
        reached = ["--model", "openai/scripted", "--api-base", server.api_base]
        done = ace("learn", "many.jsonl", "--resume", "--json", *reached, folder=tmp_path)
    assert done.code == 0, done.err
    assert done.data["traces"]["learned"] + done.data["traces"]["already_learned"] == TRACES
    assert sorted(taught(tmp_path / "skills.db")) == sorted(set(taught(tmp_path / "skills.db")))
    assert len(taught(tmp_path / "skills.db")) == TRACES
    assert not asked & {request.text for request in server.by_role("reflector")}


@pytest.mark.parametrize("book", ["skills.db", "skills.json"])
def test_the_second_signal_stops_at_once_and_the_book_is_whole(tmp_path: Path, many: Path, book: str) -> None:
    release = threading.Event()
    quick = learning_script()

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if request.role == "reflector" and len(server.by_role("reflector")) > 10:
            release.wait(600)
        return quick(request)

    with ScriptedServer(script) as server:
        process = started(tmp_path, server, "--skillbook", book)
        try:
            wait_until_asked(server, "reflector", 12, process)
            while not ((tmp_path / book).exists() and taught(tmp_path / book)):
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            err = ended_by_two(process, signal.SIGINT)
        finally:
            release.set()
    assert process.returncode == 130
    assert "Traceback" not in err and "stopped immediately" in err.splitlines()[-1]
    learned = taught(tmp_path / book)
    assert 0 < len(learned) < 12 and len(learned) == len(set(learned))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_run_begins_nothing(tmp_path: Path, many: Path, number: signal.Signals) -> None:
    release = threading.Event()

    def script(request: ScriptedRequest) -> str:
        release.wait(600)
        return "ready"

    with ScriptedServer(script) as server:
        process = started(tmp_path, server)
        try:
            wait_until_asked(server, "", 1, process)
            process.send_signal(number)
            _, err = process.communicate()
        finally:
            release.set()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "ace: interrupted"
    assert "Traceback" not in err


SIGNAL_AT_THE_FIRST_THREAD = """
import os, signal, sys, threading
begin = threading.Thread.start
def start(thread):
    threading.Thread.start = begin
    os.kill(os.getpid(), int(sys.argv[1]))
    begin(thread)
threading.Thread.start = start
from ace.cli import main
sys.exit(main(["--version"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_line_prepares_for_signals(number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGNAL_AT_THE_FIRST_THREAD, str(int(number))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ace: interrupted\n")


SIGNAL_IN_AN_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "ace.cli.commands.train":
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                while True:
                    pass
            except KeyboardInterrupt:
                pass
            raise ImportError("native code has forgotten why it could not be imported")
sys.meta_path.insert(0, Finder())
from ace.cli import main
sys.exit(main(["train", "samples.jsonl"]))
"""


def test_a_signal_that_makes_an_import_fail() -> None:
    done = subprocess.run([sys.executable, "-c", SIGNAL_IN_AN_IMPORT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ace: interrupted\n")


@pytest.mark.parametrize(
    "command",
    [
        ["ask", "What about w1?", "--skillbook", "known.db"],
        ["eval", "samples.jsonl", "--skillbook", "known.db", "--workers", "3"],
        ["learn", "many.jsonl", "--skillbook", "learned.db"],
        ["learn", "many.jsonl", "--skillbook", "learned.json"],
        ["skillbook", "dedup", "--skillbook", "known.db"],
        ["train", "samples.jsonl", "--skillbook", "trained.db", "--workers", "3"],
    ],
    ids=" ".join,
)
def test_the_second_signal_ends_any_command_whose_model_never_answers(
    tmp_path: Path, many: Path, command: list[str]
) -> None:
    with Skillbook.open(tmp_path / "known.db") as book:
        book.add_skill("lessons", "Remember LESSON w1.")
        book.add_skill("lessons", "Do remember LESSON w1 today.")
    samples = [{"question": f"What about w{number}?", "ground_truth": "w"} for number in range(8)]
    (tmp_path / "samples.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in samples), encoding="utf-8")
    release = threading.Event()

    def script(request: ScriptedRequest) -> str:
        if len(server.requests) > 1:  # the first one checks that the model answers
            release.wait(600)
        return "ready"

    with ScriptedServer(script) as server:
        process = subprocess.Popen(
            [str(ACE), *command, "--model", "openai/scripted", "--api-base", server.api_base],
            cwd=tmp_path,
            env=command_environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while len(server.requests) < 2:
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            err = ended_by_two(process, signal.SIGTERM)
        finally:
            release.set()
    assert process.returncode == 130
    assert "Traceback" not in err and "Exception ignored" not in err
    assert "stop" in err or "interrupted" in err


def accepted(listening: socket.socket, process: subprocess.Popen[str]) -> socket.socket:
    """Return the connection that a process opens; fail if it ends without one."""
    listening.settimeout(1)
    while True:
        with suppress(TimeoutError):
            connection, _ = listening.accept()
            connection.settimeout(None)
            return connection
        if process.poll() is not None:
            pytest.fail(f"the process has ended with {process.returncode}: {process.communicate()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_a_download_that_gets_no_answer(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        proxy = f"http://127.0.0.1:{silent.getsockname()[1]}"
        # A machine that excludes hosts from its proxy would go past this one.
        proxies = {
            **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), proxy),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), ""),
        }
        environment = {**command_environment(tmp_path), **proxies}
        process = subprocess.Popen(
            [str(ACE), "models", "pull", "smollm2-135m", "--yes"],
            cwd=tmp_path,
            env={**environment, "ACE_MODELS": str(tmp_path / "models")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with accepted(silent, process) as connection:
            connection.recv(1)
            process.send_signal(number)
            _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err and err.splitlines()[-1].startswith("ace: ")


IN_NATIVE_CODE = """
import ctypes, os, sys
from _thread import start_new_thread
from ace.cli.signals import on_forced_exit, run_heeding_signals

def command():
    with on_forced_exit(lambda: os.write(1, b"restored")):
        acquire = ctypes.CDLL(None).pthread_mutex_lock
        lock = ctypes.create_string_buffer(64)  # a pthread_mutex_t, all zero
        acquire(lock)
        sys.setswitchinterval(1000)  # so the other thread begins when this one is in native code
        start_new_thread(os.write, (1, b"begun\\n"))
        acquire(lock)  # waits

sys.exit(run_heeding_signals(command))
"""


def test_the_second_signal_ends_a_process_that_is_in_native_code() -> None:
    process = subprocess.Popen([sys.executable, "-c", IN_NATIVE_CODE], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert process.poll() is None, "the handler cannot run yet"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert (process.returncode, out) == (130, "restored")


@pytest.mark.parametrize("delay", [0.0, 0.2, 0.6, 1.2])
def test_a_signal_while_a_local_model_is_loaded_ends_the_command(tmp_path: Path, delay: float) -> None:
    name = needed_model("smollm2-135m")
    code = (
        "import sys\nfrom ace.cli.signals import run_heeding_signals\n"
        "from ace.providers.local import LocalLLMClient\n"
        "def command():\n"
        "    print('begun', flush=True)\n"
        "    LocalLLMClient(sys.argv[1]).load()\n"
        "    import time; time.sleep(600)\n"
        "sys.exit(run_heeding_signals(command))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(delay)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "ace: interrupted\n")


# The signal arrives while a native module that is being imported imports a module itself.
IN_NATIVE_IMPORT = """
import os, signal, sys, time
from ace.cli.signals import run_heeding_signals

native, imported_by_it, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = []

class Signalling:
    def find_spec(self, name, path=None, target=None):
        if name == imported_by_it and not seen:
            seen.append(name)
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGTERM)
        return None

def command():
    sys.modules.pop(imported_by_it, None)
    sys.meta_path.insert(0, Signalling())
    try:
        __import__(native)
        while True:
            pass
    finally:
        time.sleep(1.2)  # the one signal must not be taken for two, after which the process ends within a second
        print(seen, native in sys.modules, flush=True)

sys.exit(run_heeding_signals(command))
"""

NATIVE_MODULES = [("_decimal", "numbers"), ("orjson.orjson", "uuid")]
"""Each with a module that it imports when it is imported. An interruption there makes orjson crash."""


@pytest.mark.parametrize(("native", "imported_by_it"), NATIVE_MODULES)
def test_a_signal_in_the_import_of_a_native_module_ends_the_command_after_it(native: str, imported_by_it: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", IN_NATIVE_IMPORT, native, imported_by_it, "1"], capture_output=True, text=True
    )
    assert (process.returncode, process.stderr) == (130, "ace: interrupted\n")
    assert process.stdout == f"[{imported_by_it!r}] True\n"


def test_a_second_signal_in_the_import_of_a_native_module_ends_the_process() -> None:
    process = subprocess.run(
        [sys.executable, "-c", IN_NATIVE_IMPORT, "_decimal", "numbers", "2"], capture_output=True, text=True
    )
    assert process.returncode == 130 and "Traceback" not in process.stderr


# The signal arrives inside a finalizer, or a callback of a weak reference; Python only prints what is raised there.
IN_CALLBACK = """
import os, signal, sys, time, weakref
from ace.cli.signals import run_heeding_signals

def interrupt():
    os.kill(os.getpid(), signal.SIGTERM)
    print("interrupted", flush=True)

class Finalized:
    def __del__(self):
        interrupt()

class Referenced:
    pass

def command():
    if sys.argv[1] == "finalizer":
        Finalized()
    else:
        referenced = Referenced()
        reference = weakref.ref(referenced, lambda _: interrupt())
        del referenced
    while True:  # a signal that comes just before a wait does not end it
        time.sleep(1)

sys.exit(run_heeding_signals(command))
"""


@pytest.mark.parametrize("place", ["finalizer", "callback"])
def test_a_signal_in_a_callback_whose_errors_are_lost_ends_the_command(place: str) -> None:
    process = subprocess.run([sys.executable, "-c", IN_CALLBACK, place], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (130, "ace: interrupted\n")


def test_an_error_in_a_finalizer_is_still_shown() -> None:
    code = (
        "from ace.cli.signals import run_heeding_signals\n"
        "class Failing:\n"
        "    def __del__(self):\n"
        "        raise ValueError('no connection')\n"
        "def command():\n"
        "    Failing()\n"
        "    return 0\n"
        "run_heeding_signals(command)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.returncode == 0 and "ValueError: no connection" in process.stderr
