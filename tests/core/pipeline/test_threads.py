"""How many threads there are, whatever the backlog."""

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from types import FrameType

import pytest

from ace.pipeline import Pipeline
from ace.pipeline.threads import ThreadCache

from .sample_steps import Do, Gate, busy_threads, engine_threads, pages, variant, wait_until


def test_ten_thousand_samples_behind_the_boundary_need_no_more_threads_than_the_limits() -> None:
    gates = [Gate(), Gate(), Gate()]
    learned: list[int] = []

    def holding(gate: Gate, first: int) -> Callable[[int], None]:
        return lambda number: gate(number) if number >= first else None

    def learn(number: int) -> None:
        holding(gates[2], 3_000)(number)
        learned.append(number)

    reflect = variant(Do, "Reflect", boundary=True, max_workers=3)(holding(gates[1], 6_000))
    update = variant(Do, "Update", lane="book")(learn)
    pipeline = Pipeline([Do(holding(gates[0], 9_996)), reflect, update], background_limit=100_000)
    wait_until(lambda: busy_threads() == 0)  # those of other tests, which may be about to become idle
    running = threading.Thread(target=lambda: pipeline.run(pages(10_000), workers=4))
    running.start()
    for gate, count in zip(gates, (4, 3, 1), strict=True):
        gate.wait_until_inside(count)
    # A thread that has just done its work may not count as idle yet, so that another one was started.
    wait_until(lambda: busy_threads() == 4 + 3 + 1)
    for gate in gates:
        gate.open()
    running.join()
    pipeline.wait_for_background()
    assert learned == list(range(10_000))


def test_a_backlog_costs_no_thread() -> None:
    gate = Gate()
    pipeline = Pipeline([variant(Do, boundary=True, max_workers=2)(gate)], background_limit=100_000)
    pipeline.close()
    before = len(engine_threads())
    pipeline.run(pages(5_000))
    gate.wait_until_inside(2)
    assert len(engine_threads()) <= before + 2
    gate.open()
    pipeline.wait_for_background()


NO_THREADS_LEFT = """
    import resource, sys, threading
    from ace.pipeline import Branch, Pipeline, StepContext

    class Work:
        requires, provides, max_workers = {"sample"}, set(), 4
        def __call__(self, ctx):
            return ctx

    class Background(Work):
        async_boundary = True

    def refuse(*args, **kwargs):
        raise RuntimeError("can't start new thread")

    pipeline = Pipeline([Branch(Work(), Work()), Background(), type("Write", (Work,), {"lane": "book"})()])
    threading.Thread.start = refuse
    for _ in range(2):
        results = pipeline.run([StepContext(n) for n in range(5)])
        pipeline.wait_for_background()
        print([result.error for result in results], pipeline.background_stats()["completed"])
"""


def test_a_system_without_threads_to_give_loses_nothing() -> None:
    # The limit of the system cannot be lowered for root, so the interpreter's own way to start one refuses.
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(NO_THREADS_LEFT)], capture_output=True, text=True, encoding="utf-8"
    )
    assert run.stderr == ""
    assert run.stdout.split("\n")[:2] == [
        "[None, None, None, None, None] 5",
        "[None, None, None, None, None] 10",
    ]


NO_THREAD_FOR_THE_LOOP = """
    import threading
    from ace.pipeline import Pipeline, StepContext

    class Write:
        requires, provides, lane = {"sample"}, set(), "book"
        async def __call__(self, ctx):
            return ctx

    def refuse(*args, **kwargs):
        raise RuntimeError("can't start new thread")

    start, threading.Thread.start = threading.Thread.start, refuse
    pipeline = Pipeline([Write()])
    print(*{str(result.error) for result in pipeline.run([StepContext(n) for n in range(5)])})
    threading.Thread.start = start
    print(*{str(result.error) for result in pipeline.run([StepContext(n) for n in range(5)])})
"""


def test_a_system_without_a_thread_for_the_loop_says_so_on_each_result() -> None:
    command = [sys.executable, "-c", textwrap.dedent(NO_THREAD_FOR_THE_LOOP)]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert run.stderr == ""
    assert run.stdout == "can't start new thread\nNone\n"


def test_threads_that_have_nothing_to_do_for_a_while_end() -> None:
    pipeline = Pipeline([Do()])
    pipeline.run(pages(50), workers=6)
    wait_until(lambda: engine_threads() == [])


def test_a_forked_child_can_use_the_pipeline_of_its_parent() -> None:
    code = """
        import os, sys
        from ace.pipeline import Pipeline, StepContext

        class Async:
            requires, provides = {"sample"}, set()
            async def __call__(self, ctx):
                return ctx

        class Background:
            requires, provides, async_boundary = {"sample"}, set(), True
            def __call__(self, ctx):
                return ctx

        pipeline = Pipeline([Async(), Background()])
        pipeline.run([StepContext(n) for n in range(20)], workers=3)
        pipeline.wait_for_background()
        child = os.fork()
        results = pipeline.run([StepContext(n) for n in range(20)], workers=3)
        pipeline.wait_for_background()
        assert len(results) == 20 and pipeline.background_stats()["completed"] == 40
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    # Newer versions of Python warn of any fork beside threads; here the engine's own are what is tested.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert (run.returncode, run.stderr) == (0, "")


def test_a_child_that_is_forked_while_samples_are_in_the_background_leaves_them_to_its_parent() -> None:
    code = """
        import multiprocessing, threading
        from ace.pipeline import Pipeline, StepContext

        class Check:
            requires, provides, async_boundary = {"sample"}, set(), True
            def __call__(self, ctx):
                if ctx.sample == "slow":
                    opened.wait()
                return ctx

        class Keep:
            requires, provides, lane = {"sample"}, set(), "book"
            def __call__(self, ctx):
                return ctx

        def work():
            results = pipeline.run([StepContext(n) for n in range(5)])
            pipeline.wait_for_background()
            print(len(results), pipeline.background_stats(), flush=True)

        opened = threading.Event()
        pipeline = Pipeline([Check(), Keep()])
        pipeline.run([StepContext("slow")])
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join(60)
        print("ended:", child.exitcode)
        child.kill()
        opened.set()
        pipeline.wait_for_background()
        print(pipeline.background_stats()["completed"])
    """
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    stats = {"active": 0, "queued": 0, "completed": 5, "failed": 0}
    assert (run.stdout, run.stderr) == (f"5 {stats}\nended: 0\n1\n", "")


def test_work_that_comes_while_its_thread_is_about_to_retire_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    # The thread has waited long enough and says that it leaves; before that takes effect, somebody has counted on it.
    monkeypatch.setattr("ace.pipeline.threads._IDLE_SECONDS", 0.001)
    cache = ThreadCache()
    done = threading.Event()
    late: list[str] = []

    def trace(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name == "_retire" and not late:
            late.append("on its way")
            cache.start(done.set)

    threading.settrace(trace)
    try:
        cache.start(lambda: None)
        assert done.wait(60), "the late work was lost"
    finally:
        threading.settrace(None)
    assert late == ["on its way"]
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "ace-pipeline-1"])
