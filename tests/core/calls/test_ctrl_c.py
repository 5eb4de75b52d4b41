"""Ctrl-C while the main thread waits for a call that may take a limited time."""

import subprocess
import sys

PROGRAM = """
import faulthandler, signal, sys, time
from ace.calls import within_seconds

def interrupted(moment):
    "Make a call, and press Ctrl-C at the nth call. Returns whether there are as many."
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        if event in ("call", "c_return"):
            count += 1
            if count == moment:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(profile)
    try:
        within_seconds(60.0, lambda: time.sleep(0.002))
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False

signal.signal(signal.SIGINT, signal.default_int_handler)
within_seconds(60.0, lambda: None)  # its thread is used for the next ones
moment = 1
while interrupted(moment):
    faulthandler.dump_traceback_later(50, exit=True)  # otherwise, a call is waited for that no thread makes
    within_seconds(60.0, lambda: None)
    within_seconds(60.0, lambda: None)
    moment += 1
print("survived", moment > 10)
"""


def test_the_thread_of_an_interrupted_call_makes_the_next_one() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "survived True\n"), run.stderr
