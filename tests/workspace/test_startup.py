"""Starting up stays light: modules are counted, not milliseconds."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import ace

HEAVY = {"asyncio", "instructor", "litellm", "numpy", "openai", "pydantic"}

# How many modules that are not ours each import may load, beyond those of a bare interpreter.
# A budget may only fall. (Releases of Python differ by one or two.)
BUDGETS = {"ace": 0, "ace.pipeline": 65}

PROGRAM = """
import json, sys
name, *folders = sys.argv[1:]
sys.path += folders
before = set(sys.modules)
__import__(name)
print(json.dumps(sorted(set(sys.modules) - before)))
"""

COMMAND_PROGRAM = """
import json, sys
arguments, *folders = sys.argv[1:]
sys.path += folders
from ace.cli import main
main(json.loads(arguments))
print(json.dumps(sorted(sys.modules)))
"""


def modules_loaded_by(name: str) -> set[str]:
    """The modules that one import adds in a fresh interpreter.

    It is isolated, and starts without site-packages: what is installed there may load modules by itself.
    """
    folders = [str(Path(ace.__file__).parents[1]), sysconfig.get_path("purelib")]
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, name, *folders]
    return set(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


def top_level(module: str) -> str:
    return module.partition(".")[0]


@pytest.mark.parametrize("name", BUDGETS)
def test_an_import_loads_nothing_heavy(name: str) -> None:
    loaded = modules_loaded_by(name)
    assert name in loaded
    assert sorted(HEAVY & set(map(top_level, loaded))) == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["config"], ["skillbook", "--help"], ["nonsense"]])
def test_a_command_that_calls_no_model_loads_nothing_heavy(arguments: list[str]) -> None:
    folders = [str(Path(ace.__file__).parents[1]), sysconfig.get_path("purelib")]
    command = [sys.executable, "-I", "-S", "-c", COMMAND_PROGRAM, json.dumps(arguments), *folders]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "ace.cli.app" in loaded
    assert sorted((HEAVY - {"asyncio"}) & set(map(top_level, loaded))) == []


@pytest.mark.parametrize(("name", "budget"), list(BUDGETS.items()))
def test_an_import_stays_within_its_budget_of_modules(name: str, budget: int) -> None:
    foreign = sorted(module for module in modules_loaded_by(name) if top_level(module) != "ace")
    assert len(foreign) <= budget, f"`import {name}` loads {len(foreign)} modules: {', '.join(foreign)}"
