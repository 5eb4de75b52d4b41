"""How a model is loaded when Ctrl-C is pressed meanwhile."""

import subprocess
import sys

PROGRAM = """
import faulthandler, signal, sys, time
from pathlib import Path
from ace.providers.local.server import _loaded

def load():
    global is_loading
    is_loading = True
    time.sleep(0.01)  # until then, the main thread waits for it
    is_loading = False

def interrupted(moment):
    "Load, and press Ctrl-C at the nth call. Returns whether there are as many."
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
        _loaded(load, Path("model.gguf"))
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False

signal.signal(signal.SIGINT, signal.default_int_handler)
is_loading = False
moment = 1
while interrupted(moment):
    assert not is_loading, "native code would run while the process ends"
    faulthandler.dump_traceback_later(120, exit=True)
    moment += 1
print(moment > 20)
"""


def test_a_signal_at_any_moment_of_the_loading_of_a_model_is_not_waited_for_in_vain() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "True\n"), run.stderr
