"""Ctrl-C while the main thread waits for a call that may take a limited time."""

from tests.support.subprocesses import run_python

PROGRAM = """
import faulthandler, signal, time
from ace.calls import within_seconds
from tests.support.ctrl_c import interrupted_at

signal.signal(signal.SIGINT, signal.default_int_handler)
within_seconds(60.0, lambda: None)  # its thread is used for the next ones
moment = 1
while interrupted_at(moment, lambda: within_seconds(60.0, lambda: time.sleep(0.002))):
    faulthandler.dump_traceback_later(50, exit=True)  # otherwise, a call is waited for that no thread makes
    within_seconds(60.0, lambda: None)
    within_seconds(60.0, lambda: None)
    moment += 1
print("survived", moment > 10)
"""


def test_the_thread_of_an_interrupted_call_makes_the_next_one() -> None:
    assert run_python(PROGRAM).stdout == "survived True\n"
