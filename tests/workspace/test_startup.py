"""Starting up stays light: modules are counted, not milliseconds."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import ace
from ace.skill import CaseCheck, InsightSource, SkillCase
from ace.skillbook import Skillbook
from tests.support.loaded_modules import modules_of_command, top_level
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

HEAVY = {"asyncio", "httpx", "instructor", "litellm", "numpy", "openai", "pydantic"}

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


def modules_loaded_by(name: str) -> set[str]:
    """The modules that one import adds in a fresh interpreter.

    It is isolated, and starts without site-packages: what is installed there may load modules by itself.
    """
    folders = [str(Path(ace.__file__).parents[1]), sysconfig.get_path("purelib")]
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, name, *folders]
    return set(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


@pytest.mark.parametrize("name", BUDGETS)
def test_an_import_loads_nothing_heavy(name: str) -> None:
    loaded = modules_loaded_by(name)
    assert name in loaded
    assert sorted(HEAVY & set(map(top_level, loaded))) == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["config"], ["skillbook", "--help"], ["nonsense"]])
def test_a_command_that_calls_no_model_loads_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    _, loaded = modules_of_command(tmp_path, *arguments)
    assert "ace.cli.start" in loaded
    assert sorted((HEAVY - {"asyncio"}) & set(map(top_level, loaded))) == []


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("--no-plugins", "--help"), ("--version",)])
def test_the_overview_loads_no_parser_and_no_command(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    printed, loaded = modules_of_command(tmp_path, *arguments)
    assert "ace" in printed
    assert sorted({"attrs", "cyclopts", "rich"} & loaded) == []
    assert not {module for module in loaded if module.startswith("ace.cli.commands")}


def test_the_overview_imports_nothing_that_plugins_provide(tmp_path: Path) -> None:
    info = tmp_path / "ace_tide-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ace-tide\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[ace.plugins]\ntide = tide_hooks\n", encoding="utf-8")
    (tmp_path / "tide_hooks.py").write_text(
        "from ace.plugins import CommandSpec, hookimpl\n\nACE_API = 1\n\n\n@hookimpl\ndef ace_commands():\n"
        "    yield CommandSpec(name='tide', target='tide_commands:app', summary='Look at the tide')\n",
        encoding="utf-8",
    )
    (tmp_path / "tide_commands.py").touch()
    printed, loaded = modules_of_command(tmp_path, "--help", site=True)
    assert "Look at the tide." in printed
    assert "tide_hooks" in loaded
    assert sorted({"tide_commands", "email.parser", "pydantic"} & loaded) == []


def test_showing_a_skillbook_loads_its_own_command_only(tmp_path: Path) -> None:
    book = Skillbook()
    book.add_skill("units", "Convert the units before adding.")
    book.save_to_file(tmp_path / "skills.json")
    printed, loaded = modules_of_command(tmp_path, "skillbook", "show", "--skillbook", "skills.json")
    assert "Convert the units" in printed
    commands = {module for module in loaded if module.startswith("ace.cli.commands.skillbook.")}
    assert commands == {"ace.cli.commands.skillbook.show"}
    assert {"ace.cases", "ace.redaction", "asyncio", "http", "rich", "sqlite3"} & loaded == set()


@pytest.mark.parametrize("suffix", ["json", "db"])
def test_a_skillbook_that_ace_wrote_is_read_without_pydantic(tmp_path: Path, suffix: str) -> None:
    with Skillbook.open(tmp_path / f"skills.{suffix}") as book:
        case = SkillCase.make("2+2?", CaseCheck("numeric", "4"))
        skill = book.add_skill("maths", "Add.", cases=[case], insight_source=InsightSource("t1"))
        others = [book.add_skill("maths", f"Add {number}.") for number in range(3)]
        book.merge_skills(others[0].id, [others[1].id])
        book.keep_apart(skill.id, others[2].id, similarity=0.5)
        book.update_skill(skill.id, pinned=True)
        if suffix == "json":
            book.save_to_file(tmp_path / "skills.json")
    printed, loaded = modules_of_command(tmp_path, "skillbook", "show", "--skillbook", f"skills.{suffix}")
    assert "Add." in printed and "pydantic" not in set(map(top_level, loaded))


@pytest.mark.parametrize("suffix", ["json", "db"])
def test_a_built_in_command_looks_for_no_plugins(tmp_path: Path, suffix: str) -> None:
    Skillbook().save_to_file(tmp_path / f"skills.{suffix}")
    _, loaded = modules_of_command(tmp_path, "skillbook", "show", "--skillbook", f"skills.{suffix}")
    assert sorted({"importlib_metadata", "packaging"} & loaded) == []


@pytest.mark.parametrize("arguments", [["ask", "What?"], ["learn", "traces.jsonl"]], ids=["ask", "learn"])
def test_a_command_that_asks_a_server_loads_no_library_of_a_provider(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "traces.jsonl").write_text('{"question": "What?", "answer": "That.", "feedback": "Right."}\n')
    (tmp_path / "skills.json").write_text('{"schema_version": 1, "skills": {}, "sections": {}, "next_id": 1}')

    def script(request: ScriptedRequest) -> dict[str, object]:
        answers: dict[str, dict[str, object]] = {
            "agent": {"reasoning": "I know.", "final_answer": "That.", "skill_ids": []},
            "reflector": {"reasoning": "Right.", "correct_approach": "The same.", "key_insight": "None."},
            "skill_manager": {"reasoning": "Nothing new.", "operations": []},
        }
        return answers.get(request.role, {"word": "ready"})

    with ScriptedServer(script) as server:
        model = ("--model", "openai/scripted", "--api-base", server.api_base, "--skillbook", "skills.json")
        _, loaded = modules_of_command(tmp_path, *arguments, *model)
        assert server.requests
    assert sorted({"aiohttp", "instructor", "litellm", "numpy", "openai"} & loaded) == []


@pytest.mark.parametrize(("name", "budget"), list(BUDGETS.items()))
def test_an_import_stays_within_its_budget_of_modules(name: str, budget: int) -> None:
    foreign = sorted(module for module in modules_loaded_by(name) if top_level(module) != "ace")
    assert len(foreign) <= budget, f"`import {name}` loads {len(foreign)} modules: {', '.join(foreign)}"
