"""A plugin from its wheel, beside the wheel of ace-core: what it gives is used, and what it does not need stays out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.workspace.plugins.conftest import Environment, uv
from tests.workspace.project import ROOT

HEAVY = {"instructor", "litellm", "numpy", "openai", "pydantic"}

# How many modules that are not ours each may load. A budget may only fall. (Releases differ by some.)
BUDGETS = {
    "import ace": 0,
    "from ace.plugins import hookimpl, RunnerSpec": 58,
    "from ace.plugins import get_runner; get_runner('good_one')": 191,
    "from ace.cli import main; main(['--help'])": 180,
    "from ace.cli import main; main(['plugins'])": 227,
}

LEARN = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.support import secrets_world
from tests.support.scripted_server import ScriptedServer
from ace.plugins import get_runner
from ace import Skillbook, TraceAnalyser

def agent(thing, skills):
    return f"value-of-{{thing}}" if thing in secrets_world.things_taught(skills) else "no idea"

with ScriptedServer(secrets_world.answer) as server:
    model = f"good_one/{{server.api_base}}"
    runner = get_runner("good-one").from_model(agent, ace_model=model, skillbook_path="book.db")
    for _ in range(2):
        [result] = runner.run(["boat"])
        print(result.output.trace["answer"])
    runner.save("book.json")
    analyser = TraceAnalyser.from_model(model, skillbook=Skillbook.load_from_file("book.json"))
    print([result.error for result in analyser.run([["good", "oar", "no idea"]])])
print(sorted(secrets_world.things_taught(analyser.skillbook.as_prompt())))
print("litellm" in sys.modules)
"""


def test_a_composed_runner_learns_and_recorded_traces_are_recognised(environment: Environment) -> None:
    printed = environment.python(LEARN.format(root=str(ROOT))).splitlines()
    assert printed == ["no idea", "value-of-boat", "[None]", "['boat', 'oar']", "False"]


def test_the_same_distribution_twice_on_the_path_is_no_conflict(environment: Environment, tmp_path: Path) -> None:
    wheel = next(environment.wheels.glob("sample_good-*.whl"))
    command: list[str | Path] = [
        uv(),
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--offline",
        "--target",
        tmp_path,
        wheel,
    ]
    subprocess.run(command, check=True)
    for place in ("append", "insert"):
        extend = f"sys.path.{place}({'' if place == 'append' else '0, '}{str(tmp_path)!r})"
        code = (
            f"import sys; {extend}\nfrom ace.plugins import get_runner, list_plugins\n"
            "print([p.status for p in list_plugins() if p.name == 'good_one'], get_runner('good_one').__name__)"
        )
        assert environment.python(code) == "['ok'] GoodOneRunner\n"


def test_a_second_import_package_ace_is_warned_about(environment: Environment, tmp_path: Path) -> None:
    foreign = tmp_path / "other_agent-1.0.dist-info"
    foreign.mkdir()
    (foreign / "METADATA").write_text("Metadata-Version: 2.1\nName: other-agent\nVersion: 1.0\n", encoding="utf-8")
    (foreign / "RECORD").write_text("ace/__init__.py,,\n", encoding="utf-8")
    (tmp_path / "ace").mkdir()
    (tmp_path / "ace" / "__init__.py").touch()
    check = "from ace.cli import main; main(['plugins', '--check', 'good-one'])"
    code = f"import sys; sys.path.append({str(tmp_path)!r}); {check}"
    done = environment.command("python", "-I", "-c", code)
    assert "the distribution 'other-agent' brings an import package 'ace' too" in done.stderr
    assert "import package" not in environment.command("ace", "plugins", "--check", "good-one").stderr


def test_an_integration_that_is_not_installed_says_so(environment: Environment) -> None:
    code = "import ace\ntry: ace.OpenClaw\nexcept ImportError as error: print(error)"
    said = "ace.OpenClaw: plugin 'openclaw' is not installed; it comes with 'ace-openclaw'\n"
    assert environment.python(code) == said


@pytest.mark.parametrize("code", BUDGETS)
def test_starting_up_stays_light(code: str, environment: Environment) -> None:
    report = f"import sys; before = set(sys.modules)\n{code}\nprint('\\n', *sorted(set(sys.modules) - before))"
    loaded = set(environment.python(report).splitlines()[-1].split())
    assert loaded & HEAVY == set()
    foreign = sorted(name for name in loaded if name.partition(".")[0] != "ace" and "sample_" not in name)
    assert len(foreign) <= BUDGETS[code], f"{len(foreign)} modules: {foreign}"
