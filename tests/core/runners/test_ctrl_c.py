"""Ctrl-C at every moment at which the main thread holds or takes a lock of a run."""

from pathlib import Path

import pytest

from tests.support.subprocesses import run_python

PROGRAM = """
import faulthandler, logging, signal, threading
from pathlib import Path
import ace.runners
from ace.pipeline import threads
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from tests.support.ctrl_c import interrupted_at, is_inside

RUNNERS = str(Path(ace.runners.__file__).parent)
LOCKS = {threading.__file__, threads.__file__}

def counts(frame):
    return frame.f_code.co_filename in LOCKS and is_inside(frame, RUNNERS)

def traces(count):
    return [{"question": f"Say kit{number:04}code.", "answer": "5"} for number in range(count)]

logging.disable()
signal.signal(signal.SIGINT, signal.default_int_handler)
moment, is_interrupted = 0, True
while is_interrupted:
    moment += 1
    faulthandler.dump_traceback_later(120, exit=True)  # otherwise a lock that is never released is waited for
    book = Skillbook() if FOLDER is None else Skillbook.open(Path(FOLDER) / f"{moment}.db")
    runner = TraceAnalyser.from_roles(
        reflector=ScriptedReflector(), skill_manager=ScriptedSkillManager(), skillbook=book
    )
    is_interrupted = interrupted_at(moment, lambda: runner.run(traces(2)), counts=counts)
    [result] = runner.run(traces(1))
    assert result.error is None
print("survived", moment > 30)
"""


@pytest.mark.parametrize("has_store", [False, True])
def test_no_lock_of_an_interrupted_run_is_waited_for_in_vain(tmp_path: Path, *, has_store: bool) -> None:
    program = PROGRAM.replace("FOLDER", repr(str(tmp_path)) if has_store else "None")
    assert run_python(program).stdout == "survived True\n"
