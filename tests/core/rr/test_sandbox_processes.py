"""The worker processes of sandboxes: they end with their session, and with the process that started them."""

import importlib.util
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.requirement import missing
from tests.support.subprocesses import run_python

HOST = """
import sys, threading, time
from ace.rr import SandboxLimits, TraceSandbox

def wait():
    print("ready", flush=True)
    time.sleep(600)

with TraceSandbox({}, limits=SandboxLimits(seconds=3), functions={"wait": wait}) as sandbox:
    sandbox.execute("x = 1")
    print("started", flush=True)
    input()
    code = sys.argv[1]
    if "wait" not in code:
        threading.Timer(0.5, lambda: print("ready", flush=True)).start()
    sandbox.execute(code)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _needs_monty() -> None:
    if importlib.util.find_spec("pydantic_monty") is None:
        missing("rr", "pydantic-monty is not installed: pip install 'ace-core[rr]'")


def processes() -> dict[int, int]:
    """All processes that have not ended, each with its parent."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}


def wait_until_ended(pids: set[int]) -> None:
    while pids & processes().keys():
        time.sleep(0.05)


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "for i in range(10**9): x = str(i)", "wait()", "x = 2"],
    ids=["in a loop", "while it works", "during a host call", "between executions"],
)
def test_no_worker_survives_a_killed_host(code: str) -> None:
    command = [sys.executable, "-c", HOST, code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdin is not None and host.stdout is not None
        assert host.stdout.readline() == "started\n"
        workers = {pid for pid, parent in processes().items() if parent == host.pid}
        assert workers
        print(file=host.stdin, flush=True)
        assert host.stdout.readline() == "ready\n"
        workers |= {pid for pid, parent in processes().items() if parent == host.pid}
        host.kill()
    wait_until_ended(workers)


def test_a_process_exits_normally_with_and_without_open_sessions() -> None:
    for ending in ("", "sandbox.__exit__(None, None, None)", "sandbox.execute('while True: pass')"):
        run_python(
            "from ace.rr import SandboxLimits, TraceSandbox\n"
            "sandbox = TraceSandbox({}, limits=SandboxLimits(seconds=2)).__enter__()\n"
            f"sandbox.execute('x = 1')\n{ending}"
        )


def test_a_process_exits_while_another_thread_runs_code() -> None:
    run_python(
        "import threading, time\n"
        "from ace.rr import SandboxLimits, TraceSandbox\n"
        "begun = threading.Event()\n"
        "def run():\n"
        "    with TraceSandbox({}, limits=SandboxLimits(seconds=5), functions={'tell': begun.set}) as sandbox:\n"
        "        sandbox.execute('tell()\\nwhile True: pass')\n"
        "threading.Thread(target=run, daemon=True).start()\n"
        "begun.wait()\n"
    )


def test_a_worker_ends_with_its_session() -> None:
    done = run_python(
        "import os, subprocess, time\n"
        "from ace.rr import TraceSandbox\n"
        "def workers():\n"
        "    listing = subprocess.run(['ps', '-A', '-o', 'pid=,ppid=,comm='], capture_output=True, text=True).stdout\n"
        "    rows = [line.split(None, 2) for line in listing.splitlines()]\n"
        "    return sum(int(parent) == os.getpid() and name == 'monty' for _, parent, name in rows)\n"
        "for _ in range(10):\n"
        "    with TraceSandbox({}) as sandbox: sandbox.execute('x = 1')\n"
        "while workers() > 1: time.sleep(0.05)\n"
        "print('ended')\n"
    )
    assert done.stdout == "ended\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_gets_an_error_and_leaves_the_workers_to_its_parent() -> None:
    done = run_python(
        "import os, sys\n"
        "from ace.rr import SandboxError, TraceSandbox\n"
        "sandbox = TraceSandbox({}).__enter__()\n"
        "sandbox.execute('x = 1')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: TraceSandbox({}).__enter__()\n"
        "    except SandboxError as error: print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(sandbox.execute('print(x)').stdout, end='')\n"
    )
    assert "sessions do not work in a process that was forked" in done.stdout
    assert done.stdout.endswith("\n1\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_before_the_first_session_can_have_sessions() -> None:
    done = run_python(
        "import os, sys\n"
        "from ace.rr import TraceSandbox\n"
        "child = os.fork()\n"
        "with TraceSandbox({}) as sandbox: print(sandbox.execute('print(3)').stdout, end='', flush=True)\n"
        "if child: os.waitpid(child, 0)\n"
    )
    assert done.stdout == "3\n3\n"


def test_an_interrupt_from_the_keyboard_reaches_the_caller() -> None:
    program = (
        "from ace.rr import SandboxLimits, TraceSandbox\n"
        "with TraceSandbox({}, limits=SandboxLimits(seconds=2)) as sandbox:\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        while True: sandbox.execute('while True: pass')\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', sandbox.execute('print(2)').stdout)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "ready\n"
        time.sleep(0.3)
        host.send_signal(signal.SIGINT)
        assert host.stdout.read() == "interrupted 2\n\n"
