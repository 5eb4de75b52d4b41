"""Settings: which source wins, what is refused, and that no key is shown."""

from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.scripted_server import ScriptedServer

KEY = "sk-very-secret-0123456789"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_later_sources_win_and_each_value_names_its_own(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = write(tmp_path / ".config/ace/config.toml", 'model = "openai/user"\nworkers = 2\ntimeout = 5\n')
    project = write(tmp_path / "ace.toml", '# ours\nmodel = "openai/project"\nworkers = 3\n')
    monkeypatch.setenv("ACE_WORKERS", "4")
    settings = here("config", "--json").data["settings"]
    assert (settings["timeout"]["value"], settings["timeout"]["from"]) == (5.0, f"{user}, line 3")
    assert (settings["model"]["value"], settings["model"]["from"]) == ("openai/project", f"{project}, line 2")
    assert (settings["workers"]["value"], settings["workers"]["from"]) == (4, "variable ACE_WORKERS")
    assert (settings["max_tokens"]["value"], settings["max_tokens"]["from"]) == (2048, "default")


def test_the_json_object_has_a_schema_number_and_every_setting(here: Run) -> None:
    data = here("config", "--json").data
    assert data["schema"] == 1
    assert {"model", "api_base", "api_key", "skillbook", "lag", "max_cost"} <= set(data["settings"])
    assert all(set(entry) == {"value", "from", "variable", "about"} for entry in data["settings"].values())
    assert set(data["files"]) == {"user", "project"}


@pytest.mark.parametrize("arguments", [["config"], ["config", "--json"]])
def test_no_key_is_shown(tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    write(tmp_path / ".config/ace/config.toml", f'api_key = "{KEY}"\n')
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "-other")
    monkeypatch.setenv("ACE_API_BASE", f"http://ann:{KEY}@127.0.0.1:1/v1")
    done = here(*arguments)
    assert done.code == 0
    assert KEY not in done.out + done.err
    assert "[hidden]" in done.out and "127.0.0.1:1/v1" in done.out


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('model = "a"\nmodle = "b"\n', ["line 2", "'modle'", "did you mean 'model'"]),
        ("\nworkers = true\n", ["line 2", "'workers'", "whole number from 1", "True"]),
        ('workers = "3"\n', ["line 1", "'workers'", "'3'"]),
        ("lag = -1\n", ["line 1", "'lag'", "-1"]),
        ("[learn]\nworkers = 1\n", ["line 1", "'learn'"]),
        ('model = "a\n', ["not TOML", "line 1"]),
        (f"workers = {'[' * 5000}{']' * 5000}\n", ["nested too deeply"]),
        (f"a = {'{a=' * 5000}1{'}' * 5000}\n", ["nested too deeply"]),
        (f"workers = {'1' * 4301}\n", ["too many digits"]),
        (f"workers = 0x{'f' * 5000}\n", ["line 1", "'workers'", "20000 bits"]),
        (f"timeout = 0x{'f' * 5000}\n", ["line 1", "'timeout'", "20000 bits"]),
        (f"workers = [0x{'f' * 5000}]\n", ["line 1", "'workers'", "got a list"]),
        (f"{'long' * 5000} = 1\n", ["line 1", "no such setting: 'longlong"]),
        ("# a comment\n" * 100_000, ["larger than 1000 kB"]),
        (f'api_key = "{KEY}"\n', ["line 1", "ACE_API_KEY"]),
        ('api_base = "https://example.com/v1"\n', ["line 1", "'api_base'", "--api-base"]),
        ('\nmodel = "oobabooga/http://192.0.2.2:8000"\n', ["line 2", "'model'", "--model", "ACE_MODEL", "ace config"]),
        ('skillbook = "acme://evil.example/book"\n', ["line 1", "'skillbook'", "--skillbook", "ACE_SKILLBOOK"]),
    ],
)
def test_a_bad_project_file_is_a_sentence_with_file_line_and_name(
    tmp_path: Path, here: Run, text: str, named: list[str]
) -> None:
    write(tmp_path / "ace.toml", text)
    done = here("config")
    assert done.code == 2
    assert done.err.count("\n") == 1 and KEY not in done.err
    assert [part for part in ["ace.toml", *named] if part not in done.err] == []


def test_a_bad_variable_is_named(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACE_WORKERS", "many")
    done = here("config")
    assert done.code == 2
    assert "ACE_WORKERS" in done.err and "'many'" in done.err


def test_the_project_file_is_found_above_inside_a_repository_only(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "ace.toml", 'model = "openai/above"\nskillbook = "team.db"\n')
    inside = tmp_path / "deep" / "folder"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert here("config", "--json").data["settings"]["model"]["value"] is None
    (tmp_path / ".git").mkdir()
    settings = here("config", "--json").data["settings"]
    assert settings["model"]["value"] == "openai/above"
    assert settings["skillbook"]["value"] == str(tmp_path / "team.db")


def test_what_is_allowed_is_a_setting_and_a_variable(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / ".config/ace/config.toml", 'allow = ["email_address", "secret"]\n')
    assert here("config", "--json").data["settings"]["allow"]["value"] == "email_address,secret"
    write(tmp_path / "ace.toml", 'allow = ["copied_answer"]\n')
    assert here("config", "--json").data["settings"]["allow"]["value"] == "copied_answer"
    monkeypatch.setenv("ACE_ALLOW", "personal_data, copied_prompt")
    assert here("config", "--json").data["settings"]["allow"]["value"] == "personal_data,copied_prompt"
    monkeypatch.setenv("ACE_ALLOW", "everything")
    done = here("config")
    assert done.code == 2 and "ACE_ALLOW knows copied_answer, " in done.err and "'everything'" in done.err


@pytest.mark.parametrize("value", ['"secret"', '["copied_answer", "email_address"]', '"personal_data"'])
def test_a_project_cannot_have_your_personal_data_sent(tmp_path: Path, here: Run, value: str) -> None:
    write(tmp_path / "ace.toml", f"allow = {value}\n")
    done = here("config")
    assert done.code == 2 and "'allow' in the file of a project" in done.err and "ACE_ALLOW" in done.err


def test_the_provenance_is_a_setting_and_a_variable(tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert here("config", "--json").data["settings"]["provenance"]["value"] == "full"
    write(tmp_path / ".config/ace/config.toml", 'provenance = "ids"\n')
    assert here("config", "--json").data["settings"]["provenance"]["value"] == "ids"
    write(tmp_path / "ace.toml", 'provenance = "full"\n')
    done = here("config")
    assert done.code == 2 and "'provenance' in the file of a project may not be 'full'" in done.err
    write(tmp_path / "ace.toml", 'provenance = "ids"\n')
    monkeypatch.setenv("ACE_PROVENANCE", "full")
    assert here("config", "--json").data["settings"]["provenance"]["value"] == "full"
    monkeypatch.setenv("ACE_PROVENANCE", "none")
    done = here("config")
    assert done.code == 2 and "ACE_PROVENANCE must be one of full, ids, got 'none'" in done.err


@pytest.mark.parametrize("given", ["flag", "variable", "nothing"])
@pytest.mark.parametrize("skillbook", ["skills.json", "skills.db"])
def test_a_run_keeps_no_text_of_a_trace_if_told_so(
    given: str, skillbook: str, tmp_path: Path, here: Run, model: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in/run.json", '{"question": "Where is the zebra?", "answer": "LESSON w1"}')
    flags = ["--provenance", "ids"] if given == "flag" else []
    if given == "variable":
        monkeypatch.setenv("ACE_PROVENANCE", "ids")
    done = here("learn", "in/run.json", "--yes", "--skillbook", skillbook, *model, *flags)
    assert done.code == 0, done.err
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("skills*"))
    assert b"run.json" in kept
    assert (b"zebra" in kept) == (given == "nothing")


@pytest.mark.parametrize("given", ["flag", "variable", "nothing"])
def test_a_class_that_is_allowed_is_sent(
    given: str, tmp_path: Path, here: Run, model: list[str], server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "run.json", '{"question": "Mail jane@acme.com?", "answer": "LESSON w1"}')
    flags = ["--allow", "email_address"] if given == "flag" else []
    if given == "variable":
        monkeypatch.setenv("ACE_ALLOW", "email_address")
    done = here("learn", "run.json", "--yes", *model, *flags)
    assert done.code == 0, done.err
    sent = "".join(request.text for request in server.requests)
    assert ("jane@acme.com" in sent) == (given != "nothing")


@pytest.mark.parametrize(
    "line",
    [
        'gate = "none"',
        "prove = false",
        'unproven = "keep"',
        "min_confidence = 0.1",
        'reflector = "recursive"',
        "forget_answers = true",
    ],
)
def test_a_project_cannot_turn_off_a_safeguard(tmp_path: Path, here: Run, line: str) -> None:
    name = line.partition(" ")[0]
    write(tmp_path / "ace.toml", f"{line}\n")
    done = here("config")
    assert done.code == 2
    assert f"ace.toml, line 1: {name!r} may not be set in the file of a project, since" in done.err
    assert f"ACE_{name.upper()}, or give --{name.replace('_', '-')}" in done.err
    write(tmp_path / "ace.toml", "")
    write(tmp_path / ".config/ace/config.toml", f"{line}\n")
    assert here("config").code == 0
