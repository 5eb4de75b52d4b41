"""A normal exit of the interpreter finishes what is in the background."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = """
    import asyncio, logging, sys, threading, time, urllib.request
    from concurrent.futures import ThreadPoolExecutor
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from ace.pipeline import Pipeline, StepContext

    exiting = threading.Event()

    class Telling(logging.StreamHandler):
        def emit(self, record):
            super().emit(record)
            exiting.set()

    logging.getLogger().addHandler(Telling())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            exiting.wait()
            time.sleep(0.02)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")
        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def ask():
        return urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read().decode()

    class Learn:
        requires, provides, async_boundary, lane = {"sample"}, set(), True, "book"
        def __call__(self, ctx):
            # What a client does: a pool of its own, made late, and a request over the network.
            with ThreadPoolExecutor(1) as pool:
                answer = pool.submit(ask).result()
            print("learned", ctx.sample, answer, flush=True)
            return ctx

    class LearnAsync:
        requires, provides, lane = {"sample"}, set(), "book"
        async def __call__(self, ctx):
            # The default executor of the loop, and through it the look-up of names.
            await asyncio.to_thread(ask)
            reader, writer = await asyncio.open_connection("localhost", server.server_port)
            writer.close()
            print("awaited", ctx.sample, flush=True)
            return ctx

    pipeline = Pipeline([Learn(), LearnAsync()])
    pipeline.run([StepContext(n) for n in range(5)])
    print("main is over", flush=True)
    ENDING
"""


def run(ending: str) -> subprocess.CompletedProcess[str]:
    code = textwrap.dedent(PROGRAM).replace("ENDING", ending)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")


@pytest.mark.parametrize(
    ("ending", "returncode"),
    [("", 0), ("sys.exit(4)", 4), ("raise ValueError('oops')", 1), ("del pipeline", 0)],
    ids=["normal", "sys.exit", "error", "dropped"],
)
def test_pending_background_work_is_drained_with_a_logged_line(ending: str, returncode: int) -> None:
    process = run(ending)
    lines = process.stdout.split("\n")
    assert [line for line in lines if line.startswith("learned")] == [f"learned {n} ok" for n in range(5)]
    assert [line for line in lines if line.startswith("awaited")] == [f"awaited {n}" for n in range(5)]
    assert process.returncode == returncode
    assert "the interpreter is exiting: waiting for" in process.stderr
    assert "samples in the background of a pipeline (Ctrl-C to stop waiting)" in process.stderr


def test_nothing_is_logged_where_nothing_is_pending() -> None:
    process = run("exiting.set(); pipeline.wait_for_background()")
    assert process.stdout.count("awaited") == 5
    assert process.stderr == ""


def test_work_that_a_thread_of_the_application_brings_in_later_is_drained_too() -> None:
    # Clients fail by then, because the interpreter has closed their pools; what needs none still ends.
    process = run(
        "class Note:\n"
        "    requires, provides, async_boundary = {'sample'}, set(), True\n"
        "    def __call__(self, ctx):\n"
        "        time.sleep(0.2)\n"
        "        print('noted', ctx.sample, flush=True)\n"
        "        return ctx\n"
        "late = Pipeline([Note()])\n"
        "def bring_in():\n"
        "    threading.main_thread().join()\n"
        "    pipeline.wait_for_background()\n"
        "    time.sleep(0.3)\n"
        "    late.run([StepContext(n) for n in range(3)])\n"
        "threading.Thread(target=bring_in, daemon=False).start()"
    )
    assert process.stdout.count("noted") == 3
    assert process.stdout.count("awaited") == 5


def test_samples_that_fail_during_the_drain_are_counted_in_the_log() -> None:
    process = run("server.shutdown(); server.server_close()")
    assert "failed; call wait_for_background() before the exit to see why" in process.stderr


def test_ctrl_c_gives_up_on_the_background_and_says_how_much_was_lost(tmp_path: Path) -> None:
    code = """
        import threading, time
        from ace.pipeline import Pipeline, StepContext

        class Slow:
            requires, provides, async_boundary = {"sample"}, set(), True
            def __call__(self, ctx):
                print("begun", flush=True)
                time.sleep(3600)

        Pipeline([Slow()]).run([StepContext(n) for n in range(3)])
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "begun\n"
        assert "waiting for 3 samples" in process.stderr.readline()
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr.read() == "interrupted: 3 samples in the background were not finished\n"
        assert process.wait() == 0


@pytest.mark.parametrize("count", [1, 5])
def test_the_exit_message_of_a_runner_counts_its_samples_and_nothing_else(count: int) -> None:
    code = f"""
        import logging, threading
        from ace import TraceAnalyser
        from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager

        exiting = threading.Event()

        class Telling(logging.StreamHandler):
            def emit(self, record):
                super().emit(record)
                exiting.set()

        logging.getLogger().addHandler(Telling())

        class SlowReflector(ScriptedReflector):
            def reflect(self, *args, **kwargs):
                exiting.wait()
                return super().reflect(*args, **kwargs)

        runner = TraceAnalyser.from_roles(reflector=SlowReflector(), skill_manager=ScriptedSkillManager())
        runner.run([{{"n": number}} for number in range({count})], wait=False)
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, encoding="utf-8"
    )
    assert process.stderr.startswith(f"the interpreter is exiting: waiting for {count} sample")
    assert process.returncode == 0


def test_a_logging_handler_that_raises_does_not_keep_the_exit_from_waiting() -> None:
    process = run(
        "class Broken(logging.Handler):\n"
        "    def emit(self, record):\n"
        "        raise BrokenPipeError('the terminal has gone')\n"
        "logging.getLogger().addHandler(Broken())"
    )
    assert process.stdout.count("learned") == 5
    assert process.stdout.count("awaited") == 5
    assert process.returncode == 0
