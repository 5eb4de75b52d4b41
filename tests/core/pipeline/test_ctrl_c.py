"""Ctrl-C at every moment of a run that the main thread spends in the engine."""

import itertools
import subprocess
import sys
import textwrap

import pytest

from tests.support.subprocesses import run_python

PROGRAM = """
    import faulthandler, os, signal
    import ace.pipeline
    from ace.pipeline import Branch, Pipeline, StepContext
    from tests.support.ctrl_c import interrupted_at, is_inside

    class Step:
        requires, provides = {"sample"}, set()
        def __call__(self, ctx):
            return ctx

    class Async(Step):
        async def __call__(self, ctx):
            return ctx

    class Behind(Step):
        async_boundary = True

    class AsyncBehind(Async):
        async_boundary = True

    class Keep(Step):
        lane = "book"
        def __call__(self, ctx):
            kept.append(ctx.sample)
            return ctx

    class AsyncKeep(Keep):
        async def __call__(self, ctx):
            return super().__call__(ctx)

    ENGINE = os.path.dirname(ace.pipeline.__file__)
    kept = []

    def counts(frame):
        return is_inside(frame, ENGINE)

    def contexts(count):
        return [StepContext(number) for number in range(count)]

    signal.signal(signal.SIGINT, signal.default_int_handler)
    moment, is_interrupted = 0, True
    while is_interrupted:
        moment += 1
        faulthandler.dump_traceback_later(120, exit=True)  # otherwise a sample that is lost is waited for
        pipeline = Pipeline(STEPS, background_limit=2)
        is_interrupted = interrupted_at(moment, lambda: CALL, counts=counts)
        pipeline.wait_for_background()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        kept.clear()
        results = pipeline.run(contexts(4), workers=2)
        pipeline.wait_for_background()
        assert [result.error for result in results] == [None] * 4
        assert kept == [0, 1, 2, 3] or not any(isinstance(step, Keep) for step in pipeline.steps)
    print("survived", moment > 30)
    """

STEPS = {
    "background": "[Step(), Behind(), Keep()]",
    "asynchronous background": "[Step(), AsyncBehind(), Keep()]",
    "asynchronous lane": "[Step(), Behind(), AsyncKeep()]",
    "lane in the foreground": "[Step(), Keep(), Step()]",
    "asynchronous lane in the foreground": "[Step(), AsyncKeep(), Step()]",
    "asynchronous foreground": "[Async(), Behind(), Keep()]",
    "branch": "[Branch(Step(), Step()), Behind()]",
}


CALLS = [
    "pipeline.run(contexts(3))",
    "list(pipeline.stream(contexts(3)))",
    "list(pipeline.stream(contexts(3), workers=2))",
    "list(pipeline.stream(contexts(6), workers=3))",
]


# All steps with the calls that differ most; the calls between these with the steps that pass samples on the most.
@pytest.mark.parametrize(
    ("steps", "call"),
    [*itertools.product(STEPS, (CALLS[0], CALLS[-1])), *itertools.product(("background",), CALLS[1:-1])],
)
def test_no_sample_is_lost_or_waited_for_in_vain(steps: str, call: str) -> None:
    program = textwrap.dedent(PROGRAM).replace("STEPS", STEPS[steps]).replace("CALL", call)
    assert run_python(program).stdout == "survived True\n"


PRESSED_DURING_COLLECTION = """
    import faulthandler, gc, signal, sys, time
    from ace.pipeline import Pipeline, StepContext

    faulthandler.dump_traceback_later(120, exit=True)

    class Collect:
        requires, provides = {"sample"}, set()
        def __call__(self, ctx):
            gc.collect()
            return ctx

    class Lane(Collect):
        lane = "book"
        def __call__(self, ctx):
            return ctx

    class Dropped:
        def __init__(self):
            self.itself = self
        def __del__(self):
            press("finalizer")

    def press(moment):
        global pressed
        if moment == MOMENT and not pressed:
            pressed = True
            signal.raise_signal(signal.SIGINT)

    pressed = False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pipeline = Pipeline([Collect(), Lane()])
    pipeline.run([StepContext(0)])
    gc.callbacks.insert(0, lambda phase, info: press("before " + phase))
    gc.callbacks.append(lambda phase, info: press("after " + phase))
    if MOMENT in ("call", "return"):
        ours = next(callback.__code__ for callback in gc.callbacks if callback.__module__.startswith("ace."))
        sys.setprofile(lambda frame, event, _: press(event) if frame.f_code is ours else None)
    Dropped()
    try:
        pipeline.run([StepContext(number) for number in range(3)])
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", pressed)
    """


@pytest.mark.parametrize("moment", ["call", "return", "after start", "finalizer", "before stop"])
def test_ctrl_c_during_a_garbage_collection_is_not_lost(moment: str) -> None:
    program = textwrap.dedent(PRESSED_DURING_COLLECTION).replace("MOMENT", repr(moment))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, encoding="utf-8")
    assert (run.returncode, run.stdout) == (0, "interrupted True\n"), run.stderr
