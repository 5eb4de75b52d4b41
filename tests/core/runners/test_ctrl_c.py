"""Ctrl-C at every moment at which the main thread holds or takes a lock of a run."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import faulthandler, logging, signal, sys, threading
from pathlib import Path
import ace.runners
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager

RUNNERS = str(Path(ace.runners.__file__).parent)

def interrupted(moment, action):
    "Do something, and press Ctrl-C at the nth call inside `threading`. Returns whether there are as many."
    count, stopped = 0, False

    def profile(frame, event, argument):
        nonlocal count
        if event in ("call", "c_return") and frame.f_code.co_filename == threading.__file__ and is_in_runners(frame):
            count += 1
            if count == moment:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(profile)
    try:
        action()
    except KeyboardInterrupt:
        stopped = True
    finally:
        sys.setprofile(None)
    assert stopped or count < moment, "Ctrl-C was lost"
    return stopped

def is_in_runners(frame):
    while frame is not None and not frame.f_code.co_filename.startswith(RUNNERS):
        frame = frame.f_back
    return frame is not None

def traces(count):
    return [{"question": f"Say kit{number:04}code.", "answer": "5"} for number in range(count)]

logging.disable()
signal.signal(signal.SIGINT, signal.default_int_handler)
moment, goes_on = 0, True
while goes_on:
    moment += 1
    faulthandler.dump_traceback_later(120, exit=True)  # otherwise a lock that is never released is waited for
    book = Skillbook.open(Path(sys.argv[1]) / f"{moment}.db") if len(sys.argv) > 1 else Skillbook()
    runner = TraceAnalyser.from_roles(
        reflector=ScriptedReflector(), skill_manager=ScriptedSkillManager(), skillbook=book
    )
    goes_on = interrupted(moment, lambda: runner.run(traces(2)))
    [result] = runner.run(traces(1))
    assert result.error is None
print("survived")
"""


@pytest.mark.parametrize("has_store", [False, True])
def test_no_lock_of_an_interrupted_run_is_waited_for_in_vain(tmp_path: Path, *, has_store: bool) -> None:
    command = [sys.executable, "-c", PROGRAM, *([str(tmp_path)] if has_store else [])]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "survived\n"), run.stderr
