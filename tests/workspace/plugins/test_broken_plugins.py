"""Wheels of good and of broken plugins side by side: each broken one fails alone, and says what is wrong."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from examples.scripted_model import ScriptedModel
from tests.workspace.plugins.conftest import Environment
from tests.workspace.plugins.sample_plugins import SAMPLES
from tests.workspace.project import read_toml

ERRORS = {
    name: (expected["error"], expected["text"].replace("{pluggy}", version("pluggy")))
    for name, expected in read_toml(Path(__file__).with_name("expected_errors.toml")).items()
}

ASK_FOR = """
import json
from ace.plugins import PluginError, get_execute_step, get_runner
try:
    get_runner({name!r})
except PluginError as error:
    print(json.dumps([type(error).__name__, str(error)]))
print(json.dumps(get_execute_step("good_one").__name__))
"""

# These are not even imported: the metadata show what is wrong.
NEVER_IMPORTED = {"Bad-Name", "twin", "langchain", "god_one", "openclaw"}


def test_every_broken_sample_is_in_the_table() -> None:
    well = {"good_one", "noisy", "caller", "learn", "interrupts"}
    assert {sample.name for sample in SAMPLES} - set(ERRORS) == well


@pytest.mark.parametrize("name", ERRORS)
def test_a_broken_plugin_says_what_is_wrong_and_harms_no_other(name: str, environment: Environment) -> None:
    said, good = environment.python(ASK_FOR.format(name=name)).splitlines()
    assert tuple(json.loads(said)) == ERRORS[name]
    assert json.loads(good) == "GoodExecuteStep"
    packages = {sample.package for sample in SAMPLES if sample.name == name and name not in NEVER_IMPORTED}
    assert set(environment.imported()) == {*packages, "sample_good"}


def test_help_and_the_list_import_hook_modules_and_name_what_is_broken(environment: Environment) -> None:
    shown = environment.command("ace", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    broken = "Bad-Name, langchain, learn, other-name, raises, too-old, twin"
    assert f"Plugins that cannot be loaded (`ace plugins` says why): {broken}." in " ".join(shown.stdout.split())
    assert "good-one " in shown.stdout and "Say what is good" in shown.stdout
    imported = {sample.package for sample in SAMPLES if sample.name not in NEVER_IMPORTED}
    assert set(environment.imported()) == imported
    fewer = environment.command("ace", "-P", "no:raises", "--help").stdout
    assert "other-name, too-old, twin" in " ".join(fewer.split())
    listed = environment.json("plugins", "--json")
    assert set(environment.imported()) == imported
    assert listed["schema"] == 1
    infos = {(info["name"], info["distribution"]): info for info in listed["plugins"]}
    assert len(infos) == len(listed["plugins"]) == len(SAMPLES)
    assert infos["good_one", "sample-good"] == {
        "name": "good_one",
        "kinds": ["execute_steps", "trace_converters", "llm_clients", "commands"],
        "distribution": "sample-good",
        "version": "1.0",
        "api": 1,
        "status": "ok",
        "summary": "The sample good_one.",
        "problem": "",
    }
    found = {name: info["status"] for (name, _), info in infos.items() if info["status"] != "ok"}
    assert found == {
        "Bad-Name": "error",
        "other_name": "error",
        "raises": "error",
        "langchain": "conflict",
        "learn": "conflict",
        "twin": "conflict",
        "too_old": "incompatible",
        "no_framework": "missing framework",
        "old_framework": "missing framework",
    }
    assert infos["twin", "sample-twin-two"]["problem"] == ERRORS["twin"][1]
    assert infos["other_name", "sample-other-name"]["problem"] == ERRORS["other_name"][1]


def test_an_unknown_command_of_a_plugin_that_is_broken_says_what_is_wrong_with_it(environment: Environment) -> None:
    for name in ("raises", "too_old", "twin"):
        done = environment.command("ace", name.replace("_", "-"))
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"ace: {ERRORS[name][1]}\n")
    done = environment.command("ace", "lost")
    assert done.stderr == "ace: plugin 'lost' of sample-lost 1.0 provides no command; it provides: runners\n"
    assert "is disabled by" in environment.command("ace", "-P", "no:caller", "caller", "where").stderr
    assert "unknown command" in environment.command("ace", "nonsense").stderr.lower()


def test_a_plugin_with_the_name_of_a_built_in_command_is_told(environment: Environment) -> None:
    [info] = environment.json("plugins", "learn", "--json")["plugins"]
    assert info["status"] == "conflict"
    assert "ace has a command 'learn' of its own" in info["problem"]


def test_a_command_gets_settings_model_and_skillbook(environment: Environment, tmp_path: Path) -> None:
    def answer(role: str, prompt: str) -> str:
        return "skill seen" if "Check the tide table first." in prompt else "nothing seen"

    book = Skillbook()
    book.add_skill("tides", "Check the tide table first.")
    book.save_to_file(tmp_path / "team.json")
    with ScriptedModel(answer) as model:
        (tmp_path / "ace.toml").write_text(
            f'model = "openai/x"\napi_base = "{model.api_base}"\nskillbook = "team.json"\n', encoding="utf-8"
        )
        environ = {"OPENAI_API_KEY": "k", "HOME": str(tmp_path), "ACE_PLUGINS": "caller"}
        ask = environment.command("ace", "caller", "ask", "When?", environ=environ, cwd=tmp_path)
        assert (ask.returncode, ask.stdout, ask.stderr) == (0, "skill seen\n", "")
        where = environment.command("ace", "caller", "where", environ=environ, cwd=tmp_path)
        assert where.stdout == "caller openai/x ace.toml, line 1\n"
        assert "--context" not in environment.command("ace", "caller", "ask", "--help").stdout
        wrong = environment.command(
            "ace", "caller", "ask", "When?", "--model", "openai/y", environ=environ, cwd=tmp_path.parent
        )
        assert wrong.returncode == 2 and wrong.stderr.startswith("ace: no such skillbook"), wrong.stderr


def test_an_unexpected_error_of_a_command_is_one_sentence_that_names_the_plugin(environment: Environment) -> None:
    said = {
        "value": "ValueError: the tank is empty",
        "key": "KeyError: 'the tank is empty'",
        "bare": "ZeroDivisionError: the tank is empty",
    }
    for error, text in said.items():
        done = environment.command("ace", "caller", "fail", "--with-error", error)
        told = f"plugin 'caller' of sample-caller 1.0: its command failed: {text}; `ace --debug caller ...` shows where"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"ace: {told}\n")
    done = environment.command("ace", "--debug", "caller", "fail", "--with-error", "value")
    assert done.returncode == 1
    assert "cli.py" in done.stderr and "in fail" in done.stderr and "ValueError: the tank is empty" in done.stderr


def test_an_interrupted_import_names_the_plugin(environment: Environment) -> None:
    done = environment.command("ace", "interrupts", environ={"INTERRUPT": "1"})
    assert (done.returncode, done.stdout) == (130, "")
    assert (
        done.stderr
        == "ace: interrupted while importing the hook module of plugin 'interrupts' of sample-interrupts 1.0\n"
    )


def teaching_nothing(role: str, prompt: str) -> dict[str, object] | str:
    if role == "reflector":
        return {"reasoning": "r", "correct_approach": "c", "key_insight": "Look twice.", "extracted_learnings": []}
    if role == "skill_manager":
        return {"reasoning": "r", "operations": []}
    return "ready"


def test_what_a_plugin_prints_stays_out_of_the_result(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text('{"task": "Look.", "feedback": "wrong"}', encoding="utf-8")
    environ = {"OPENAI_API_KEY": "k", "HOME": str(tmp_path), "ACE_PLUGINS": "noisy", "NOISE": "1"}
    with ScriptedModel(teaching_nothing) as model:
        options = ("--model", "openai/x", "--api-base", model.api_base, "--json")
        done = environment.command("ace", "learn", "trace.json", *options, environ=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["traces"]["learned"] == 1
    for noise in ("hook module", "import", "recogniser", "observer"):
        assert f"noise of the {noise}" in done.stderr


def test_import_ace_imports_no_plugin(environment: Environment) -> None:
    environment.python("import ace, ace.plugins; ace.TraceAnalyser; ace.plugins.discover")
    assert environment.imported() == []


def test_the_check_loads_everything_and_shows_where_it_fails(environment: Environment) -> None:
    checked = environment.command("ace", "plugins", "--check")
    assert checked.returncode == 1
    for name, (_, text) in ERRORS.items():
        if name not in ("god_one", "openclaw", "bad_command"):
            assert f"\n{text}\n" in f"{checked.stderr}\n", name
    assert 'sample_raises/plugin.py", line 3, in <module>' in checked.stderr
    assert "RuntimeError: the disk is made of cheese" in checked.stderr
    good = environment.command("ace", "plugins", "--check", "good-one")
    assert (good.returncode, good.stderr) == (0, "")
    assert "  ok  " in good.stdout
    assert environment.command("ace", "plugins", "--check", "god-one").returncode == 2


def test_a_command_that_cannot_be_imported_fails_alone(environment: Environment) -> None:
    broken = environment.command("ace", "bad-command")
    assert (broken.returncode, broken.stdout) == (2, "")
    assert broken.stderr == (
        "ace: plugin 'bad_command' of sample-bad-command 1.0: 'sample_bad_command.cli:command' cannot be imported: "
        "RuntimeError: the disk is made of cheese; `ace plugins --check` shows where\n"
    )
    for name in ("good-one", "good_one"):
        assert environment.command("ace", name, "cheese").stdout == "cheese is good\n"
        assert environment.imported() == ["sample_good"]
    assert "Say what is good." in environment.command("ace", "good-one", "--help").stdout
    unknown = environment.command("ace", "nonsense")
    assert unknown.returncode == 2 and "Traceback" not in unknown.stderr


def test_plugins_are_switched_off_before_they_are_imported(environment: Environment) -> None:
    def statuses(*arguments: str, **environ: str) -> set[str]:
        done = environment.command("ace", *arguments, "plugins", "--json", environ=environ)
        return {info["status"] for info in json.loads(done.stdout)["plugins"] if info["name"] == "good_one"}

    assert statuses("--no-plugins") == {"disabled"}
    for name in ("good_one", "good-one", "Sample_Good"):
        assert statuses("-P", f"no:{name}") == {"disabled"}
    assert statuses(ACE_PLUGINS="") == {"disabled"}
    assert statuses(ACE_PLUGINS=" twin , good-one ") == {"ok"}
    assert statuses(ACE_PLUGINS_DISABLED=" sample-good ") == {"disabled"}
    assert "good-one" not in environment.command("ace", "--no-plugins", "--help").stdout
    assert environment.command("ace", "-P", "good-one", "plugins").returncode == 2
    warned = environment.command("ace", "plugins", environ={"ACE_PLUGINS_DISABLED": "nonsense"})
    assert "ACE_PLUGINS_DISABLED names 'nonsense'" in warned.stderr


def test_one_of_two_that_claim_a_name_can_be_switched_off(environment: Environment) -> None:
    code = "from ace.plugins import get_runner; print(get_runner('twin').__name__)"
    assert environment.python(code, ACE_PLUGINS_DISABLED="sample-twin-two") == "TraceAnalyser\n"
    assert environment.imported() == ["sample_twin_one"]


def test_what_is_wrong_is_skipped_with_one_warning_or_raised(environment: Environment) -> None:
    code = "from ace.protocols import trace_converters; print([found.name for found in trace_converters()])"
    done = environment.command("python", "-I", "-c", code)
    assert (done.returncode, done.stdout) == (0, "['execution_trace', 'good_one', 'noisy']\n")
    warnings = [ERRORS[name][1] for name in ("other_name", "raises", "too_old")]
    assert done.stderr.splitlines() == warnings
    again = f"from ace.protocols import embedder_names; embedder_names(); {code}"
    assert environment.command("python", "-I", "-c", again).stderr.splitlines() == warnings
    strict = environment.command("python", "-I", "-c", code, environ={"ACE_PLUGINS_STRICT": "1"})
    assert strict.returncode == 1
    assert strict.stderr.endswith(f"PluginLoadError: {ERRORS['other_name'][1]}\n")
