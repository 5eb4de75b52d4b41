"""How a model is loaded when Ctrl-C is pressed meanwhile."""

from tests.support.subprocesses import run_python

PROGRAM = """
import faulthandler, signal, time
from pathlib import Path
from ace.providers.local.server import _loaded
from tests.support.ctrl_c import interrupted_at

def load():
    global is_loading
    is_loading = True
    time.sleep(0.01)  # until then, the main thread waits for it
    is_loading = False

signal.signal(signal.SIGINT, signal.default_int_handler)
is_loading = False
moment = 1
while interrupted_at(moment, lambda: _loaded(load, Path("model.gguf"))):
    assert not is_loading, "native code would run while the process ends"
    faulthandler.dump_traceback_later(120, exit=True)
    moment += 1
print("survived", moment > 20)
"""


def test_a_signal_at_any_moment_of_the_loading_of_a_model_is_not_waited_for_in_vain() -> None:
    assert run_python(PROGRAM).stdout == "survived True\n"
