"""Plugins are loaded by several threads at once, and by hook modules that look into ace while they are loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.command_line import command_environment

HEAD = """
from ace.plugins import RunnerSpec, TraceConverterSpec, hookimpl
from ace.protocols import trace_converters

ACE_API = 1

@hookimpl
def ace_trace_converters():
    yield TraceConverterSpec(name=__name__, target="ace.runners:ACE")

@hookimpl
def ace_runners():
    yield RunnerSpec(name=__name__, target="ace.runners:TraceAnalyser")
"""

# The one thread loads `last` and looks into a registry; the other fills that registry with `first`, then `last`.
FIRST = HEAD + "from meeting import filling\nfilling.set()\n"
LAST = HEAD + "from meeting import filling, loading\nloading.set()\nfilling.wait(2)\ntrace_converters()\n"
MEETING = "import threading\nfilling, loading = threading.Event(), threading.Event()\n"
TWO_THREADS = """
import threading
from meeting import loading
from ace.plugins import get_runner
from ace.protocols import trace_converters

thread = threading.Thread(target=lambda: print(get_runner("last").__name__), daemon=True)
thread.start()
loading.wait()
names = [found.name for found in trace_converters()]
thread.join()
print(*names)
"""

SELFISH = HEAD + (
    "from ace.plugins import PluginError, get_runner\n"
    "try:\n    get_runner(__name__)\nexcept PluginError as error:\n    print(error)\n"
)
ASK = """
from ace.plugins import get_runner, list_plugins
print(get_runner("selfish").__name__, *[info.status for info in list_plugins("selfish")])
"""


def printed(folder: Path, code: str, **modules: str) -> list[str]:
    """Run code where each module but `meeting` is a plugin of its own."""
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
        if name != "meeting":
            info = folder / f"ace_{name}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ace-{name}\nVersion: 1.0\n", encoding="utf-8")
            (info / "entry_points.txt").write_text(f"[ace.plugins]\n{name} = {name}\n", encoding="utf-8")
    environ = command_environment(folder, {"PYTHONPATH": str(folder), "ACE_PLUGINS": ",".join(modules)})
    # Two threads that wait for each other would wait indefinitely; the time only ends the process then.
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_two_threads_do_not_wait_for_each_other(tmp_path: Path) -> None:
    said = printed(tmp_path, TWO_THREADS, first=FIRST, last=LAST, meeting=MEETING)
    assert said == ["TraceAnalyser", "execution_trace first last"]


def test_one_that_asks_for_itself_while_it_is_loaded_is_told_and_loaded(tmp_path: Path) -> None:
    [said, found] = printed(tmp_path, ASK, selfish=SELFISH)
    assert said == "plugin 'selfish' of ace-selfish 1.0: it uses itself while it is being loaded; do that later"
    assert found == "TraceAnalyser ok"
