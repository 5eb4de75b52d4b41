"""The first line of a command that uses a model: which model, where it runs, and how much there is to do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ace.cli.learning.progress import displayed
from ace.cli.model_choice import announce, model_and_place
from ace.cli.settings import load_settings
from ace.roles import Reflector, SmallModelReflector
from ace.skillbook import Skillbook
from tests.support.clients import client_for
from tests.support.command_line import Run, command_environment
from tests.support.scripted_server import ScriptedServer

QUESTIONS = [{"question": f"What about LESSON w{number}?", "ground_truth": "LESSON"} for number in range(3)]


@pytest.fixture
def place(server: ScriptedServer) -> str:
    return f"with openai/scripted at {server.api_base}"


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book:
        book.add_skill("lessons", "Remember LESSON harbour.")
    return path


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.json"
    path.write_text(json.dumps(QUESTIONS), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "doing"),
    [
        (["learn", "logs"], "learning from 6 traces"),
        (["learn", "logs", "--epochs", "2"], "learning from 6 traces, 2 times each,"),
        (["train", "samples.json"], "training on 3 samples"),
        (["eval", "samples.json", "--repeats", "2"], "answering 3 samples, 12 answers in all,"),
        (["ask", "What about the harbour?"], "answering 1 question from 1 skill"),
        (["ask", "What about the harbour?", "--without-skills"], "answering 1 question without skills"),
        (["skillbook", "dedup", "--embedding-provider", "lexical"], "comparing 1 skill, and judging similar ones"),
    ],
)
def test_it_names_model_place_and_amount(
    here: Run, logs: Path, samples: Path, book: Path, model: list[str], place: str, arguments: list[str], doing: str
) -> None:
    done = here(*arguments, *model)
    assert done.err.splitlines()[0] == f"ace: {doing} {place}"
    assert place not in here(*arguments, *model, "--json").err


@pytest.mark.parametrize("command", [["ask", "What?"], ["learn", "logs"]])
def test_a_large_skillbook_is_announced_before_it_is_opened(
    here: Run, logs: Path, tmp_path: Path, model: list[str], place: str, command: list[str]
) -> None:
    book = tmp_path / "skills.json"
    Skillbook().save_to_file(book)
    with book.open("a", encoding="utf-8") as file:
        file.write(" " * 17_000_000)
    done = here(*command, *model, "--skillbook", "skills.json")
    opening, *doing = done.err.splitlines()
    assert opening == "ace: opening skills.json (17 MB)"
    assert any(line.endswith(place) for line in doing)
    assert "opening" not in here(*command, *model, "--skillbook", "skills.json", "--json").err


MODULES_AT_THE_FIRST_LINE = """
import json, os, sys
from ace.cli import main

def write(text):
    os.write(1, json.dumps([text, sorted(sys.modules)]).encode())
    os._exit(0)

sys.stderr.write = write
main(["learn", "logs", "--model", "openai/scripted", "--skillbook", "skills.json"])
"""


def test_the_first_line_of_learning_does_not_wait_for_the_imports_of_a_run(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "skills.json").write_text(" " * 17_000_000, encoding="utf-8")
    command = [sys.executable, "-c", MODULES_AT_THE_FIRST_LINE]
    done = subprocess.run(
        command, cwd=tmp_path, env=command_environment(tmp_path), capture_output=True, text=True, check=True
    )
    told, modules = json.loads(done.stdout)
    assert told.startswith("ace: opening skills.json (17 MB)")
    later = {"ace.cli.fetch_model", "ace.cli.learning.run_plan", "ace.cli.learning.watching", "ace.providers.local"}
    assert modules and not {*later, "ace.steps.prove", "pydantic"} & set(modules)


@pytest.mark.parametrize(
    "command", [["ask", "What?"], ["learn", "logs"], ["train", "samples.json"], ["eval", "samples.json"]]
)
def test_with_json_the_object_names_them(
    here: Run, logs: Path, samples: Path, book: Path, model: list[str], server: ScriptedServer, command: list[str]
) -> None:
    assert here(*command, *model, "--json").data["place"] == f"at {server.api_base}"


def test_the_models_command_names_the_place_first(here: Run, model: list[str], server: ScriptedServer) -> None:
    first = here("models", *model).out.splitlines()[0]
    assert first == f"model: openai/scripted at {server.api_base} (from flag --model)"


@pytest.mark.parametrize(
    ("flags", "environ", "said"),
    [
        ({}, {}, "local/qwen2.5-coder-1.5b on this machine"),
        ({"model": "local/mine.gguf"}, {}, "local/mine.gguf on this machine"),
        ({"model": "anthropic/claude"}, {}, "anthropic/claude at the provider 'anthropic'"),
        ({"model": "gpt-4o"}, {}, "gpt-4o at its provider"),
        (
            {"model": "openai/x", "api_base": "http://ann:secret@127.0.0.1:1/v1"},
            {},
            "openai/x at http://127.0.0.1:1/v1",
        ),
        ({"model": "openai/x"}, {"OPENAI_BASE_URL": "http://proxy/v1"}, "openai/x at http://proxy/v1"),
    ],
)
def test_the_place_of_each_kind_of_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: dict[str, str], environ: dict[str, str], said: str
) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert model_and_place(load_settings(flags, environ={"HOME": str(tmp_path)}, folder=tmp_path)) == said


def test_attempts_at_tasks_are_announced_with_the_limits_of_a_small_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: ScriptedServer
) -> None:
    settings = load_settings({}, environ={"HOME": str(tmp_path)}, folder=tmp_path)
    client = client_for(server)
    hint = "so small a model learns only from corrections"
    for reflector, is_hinted in ((SmallModelReflector(client), True), (Reflector(client), False)):
        announce("learning", settings, of_attempts=reflector)
        assert (hint in capsys.readouterr().err) == is_hinted
    announce("learning", settings, quiet=True, of_attempts=SmallModelReflector(client))
    assert capsys.readouterr().err == ""


def test_an_empty_flag_unsets_the_address_of_the_project(here: Run, tmp_path: Path, book: Path) -> None:
    (tmp_path / "ace.toml").write_text('api_base = "http://127.0.0.1:9/v1"\n', encoding="utf-8")
    done = here("ask", "What?", "--model", "anthropic/claude", "--api-base", "")
    assert "with anthropic/claude at the provider 'anthropic'" in done.err.splitlines()[0]
    assert "ANTHROPIC_API_KEY" in done.err
    assert "at http://127.0.0.1:9/v1" in here("ask", "What?", "--model", "openai/x").err.splitlines()[0]


def test_a_file_of_the_project_can_unset_the_address_of_the_user(here: Run, tmp_path: Path) -> None:
    user = tmp_path / ".config" / "ace" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text('api_base = "http://127.0.0.1:9/v1"\n', encoding="utf-8")
    (tmp_path / "ace.toml").write_text('api_base = ""\n', encoding="utf-8")
    setting = here("config", "--json").data["settings"]["api_base"]
    assert (setting["value"], setting["from"]) == (None, f"{tmp_path / 'ace.toml'}, line 1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "10000000000000000000"], "--workers must be a whole number from 1 to 1,000, got"),
        (["--workers", "0"], "--workers must be a whole number from 1 to 1,000, got 0"),
        (["--epochs", "10001"], "--epochs must be a whole number from 1 to 10,000, got 10001"),
        (["--max-cost", "0"], "--max-cost must be a number greater than 0, got 0"),
        (["--timeout", "inf"], "--timeout must be a number greater than 0 and at most 1,000,000, got inf"),
        (["--temperature", "-1"], "--temperature must be a number of at least 0, got -1"),
        (["--skillbook", ""], "--skillbook must not be empty"),
    ],
)
def test_a_number_out_of_range_is_told_with_the_range(here: Run, logs: Path, arguments: list[str], said: str) -> None:
    done = here("learn", "logs", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err and done.err.count("\n") == 1


class _Tally:
    """Work of which some is done, some at once."""

    total = 8
    ended = 0
    skipped = 0
    text = "working"


def test_the_time_left_is_estimated_from_what_was_worked_on(capsys: pytest.CaptureFixture[str]) -> None:
    tally = _Tally()
    for tally.skipped, tally.ended in ((1, 1), (1, 3)):
        with displayed(tally) as display:
            display.show()
        assert capsys.readouterr().err == "working\n"
    with displayed(tally) as display:
        tally.ended = 4
        display.show()
        tally.ended, tally.text = 8, "done"
    assert re.fullmatch(r"working, about \d+ s left\ndone\n", capsys.readouterr().err)
