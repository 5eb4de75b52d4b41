"""Signals at every moment at which the main thread of a worker waits for one."""

from tests.support.subprocesses import run_python

PROGRAM = """
import faulthandler, os, queue, signal, sys, threading
from ace_server import running

FILES = {threading.__file__, queue.__file__, running.__file__}

class Worker:
    def stop(self):
        pass

def calls_until_stopped(moments):
    calls = 0

    def profile(frame, event, argument):
        nonlocal calls
        if event in ("call", "c_return") and frame.f_code.co_filename in FILES:
            calls += 1
            if calls in moments:
                signal.raise_signal(signal.SIGTERM)

    def start():
        last.start()
        sys.setprofile(profile)
        return Worker()

    last = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
    running.work_until_stopped(start)
    sys.setprofile(None)
    last.join()
    return calls

signal.signal(signal.SIGTERM, lambda number, frame: None)  # the last one may come late
moment = calls = 1
while moment <= calls:
    faulthandler.dump_traceback_later(120, exit=True)  # otherwise, the handler waits for a lock of its own thread
    calls = max(calls_until_stopped({moment, moment + distance}) for distance in range(3))
    moment += 1
print("survived", moment > 5)
"""


def test_signals_at_any_moment_end_a_worker() -> None:
    assert run_python(PROGRAM).stdout.endswith("survived True\n")
