"""Without browser-use, the package can be imported, converts stored histories, and says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.subprocesses import run_python

HISTORY = Path(__file__).parent / "histories" / "booked.json"
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("browser_use", "psutil"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def test_stored_histories_are_converted() -> None:
    code = f"""
{BLOCKED}
from pathlib import Path
import ace_browser_use
from ace.plugins import get_trace_converter
from ace import read_runs

path = Path({str(HISTORY)!r})
assert get_trace_converter("browser_use") is ace_browser_use.BrowserToTrace
[run] = read_runs(path)
assert (run.format, run.answer) == ("browser_use", ace_browser_use.history_to_trace(path)["answer"])
print(run.answer)
"""
    assert run_python(code).stdout == "Berth 7 is for Ada.\n"


@pytest.mark.parametrize("use", ["BrowserExecuteStep(object())", "BrowserUse.from_model('gpt-4o-mini')"])
def test_using_it_says_what_to_install(use: str) -> None:
    code = f"""
{BLOCKED}
from ace_browser_use import *
try:
    {use}
except ImportError as error:
    print(error)
"""
    told = run_python(code).stdout
    assert told.startswith("BrowserExecuteStep needs 'browser_use', which cannot be imported")
    assert told.endswith("install it with: python -m pip install 'browser-use>=0.13.10,<0.14'\n")


def test_the_hook_module_loads_no_framework_and_nothing_heavy() -> None:
    code = """
import sys
import ace_browser_use.plugin
heavy = {"browser_use", "pydantic", "litellm", "openai", "asyncio", "psutil"}
print(sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "[]\n"
