"""The settings file of a project cannot send a trace anywhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ace import Skillbook
from tests.support.command_line import Run, ace, command_environment
from tests.support.scripted_server import HttpError, ScriptedServer

ROOT = Path(__file__).parents[3]


def calls(what: str, tmp_path: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "tests.core.cli.project_model_calls", what]
    done = subprocess.run(
        command, cwd=ROOT, env=command_environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_model_of_a_project_cannot_be_an_address(here: Run, logs: Path, server: ScriptedServer) -> None:
    address = server.api_base.removesuffix("/v1")
    (logs.parent / "ace.toml").write_text(f'model = "oobabooga/{address}"\n', encoding="utf-8")
    done = here("learn", logs.name, "--yes")
    assert (done.code, server.requests) == (2, [])
    assert "'model' in the file of a project" in done.err


def test_whatever_a_project_names_no_request_goes_to_an_address_in_it(tmp_path: Path) -> None:
    found = calls("fuzz", tmp_path)
    assert found["arrived"] == []
    endings = found["endings"]
    assert isinstance(endings, dict)
    assert endings["refused"] > 100 and endings["called"] > 5


def test_no_part_of_a_models_name_becomes_a_part_of_the_host(tmp_path: Path) -> None:
    found = calls("hosts", tmp_path)
    assert len(found) > 15
    for provider, hosts in found.items():
        assert isinstance(hosts, list)
        assert len(hosts) == 1 and "evil" not in hosts[0], (provider, hosts)


@pytest.mark.parametrize(
    "model",
    [
        "local//tmp/weights.gguf",
        "local/weights.gguf",
        "local/../weights.gguf",
        "claude_code/sonnet",
        "acme/http://127.0.0.1:1",
        "acme/127.0.0.1:1",
        "baseten/evil.test/x",
        "openai/http://127.0.0.1:1",
        "openai//127.0.0.1",
        "openai/../x",
        "openai/a b",
        "openai/a\\\\b",
        "openai/",
        "OpenAI/gpt-4o",
        "/etc/passwd",
        "some-model",
    ],
)
def test_what_could_be_an_address_a_path_or_a_plugin_is_refused(tmp_path: Path, here: Run, model: str) -> None:
    (tmp_path / "ace.toml").write_text(f'model = "{model}"\n', encoding="utf-8")
    done = here("config")
    assert done.code == 2
    assert "ace.toml, line 1: 'model' in the file of a project" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-4o-mini",
        "anthropic/claude-sonnet-4-5",
        "openrouter/meta-llama/llama-3.3-70b-instruct:free",
        "ollama_chat/qwen2.5:7b",
        "together_ai/Qwen/Qwen2.5-7B",
        "gpt-4o-mini",
        "claude-sonnet-4-5",
        "local/qwen2.5-coder-1.5b",
    ],
)
def test_well_known_models_can_be_named(tmp_path: Path, here: Run, model: str) -> None:
    (tmp_path / "ace.toml").write_text(f'model = "{model}"\n', encoding="utf-8")
    assert here("config", "--json").data["settings"]["model"]["value"] == model


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1.evil.test/v1",
        "http://127.0.0.1@evil.test/v1",
        "http://evil.test\\\\@127.0.0.1/v1",
        "http://evil.test#@localhost",
        "http://localhost:80@evil.test",
        "http://localhost\\t.evil.test",
        "//localhost/v1",
        "http://0.0.0.0:1/v1",
        "http://[::ffff:192.0.2.1]/v1",
    ],
)
def test_an_address_that_only_looks_like_this_machine_is_refused(tmp_path: Path, here: Run, address: str) -> None:
    (tmp_path / "ace.toml").write_text(f'api_base = "{address}"\n', encoding="utf-8")
    done = here("config")
    assert done.code == 2 and "'api_base' in the file of a project" in done.err


@pytest.mark.parametrize("address", ["http://localhost:11434/v1", "http://127.0.0.1:8080/v1", "http://[::1]:8000"])
def test_a_server_on_this_machine_can_be_named(tmp_path: Path, here: Run, address: str) -> None:
    (tmp_path / "ace.toml").write_text(f'api_base = "{address}"\n', encoding="utf-8")
    assert here("config", "--json").data["settings"]["api_base"]["value"] == address


def test_your_own_settings_may_name_any_model(tmp_path: Path, here: Run) -> None:
    own = tmp_path / ".config" / "ace" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('model = "oobabooga/http://192.0.2.2:8000"\nskillbook = "acme://team/skills"\n', encoding="utf-8")
    settings = here("config", "--json").data["settings"]
    assert settings["model"]["value"] == "oobabooga/http://192.0.2.2:8000"


def test_a_project_cannot_choose_a_skillbook_of_the_user(tmp_path: Path, server: ScriptedServer) -> None:
    private, project = tmp_path / "private", tmp_path / "repo"
    for folder in (private, project):
        folder.mkdir()
    with Skillbook.open(private / "mine.db") as book:
        book.add_skill("names", "The code name is BLUEFIN.")
    (project / "t.json").write_text(json.dumps({"task": "t", "answer": "LESSON a"}), encoding="utf-8")
    text = f'block = "AGENTS.md"\nmodel = "openai/x"\napi_base = "{server.api_base}"\n'
    for place in (str(private / "mine.db"), "../private/mine.db", "~/private/mine.db", "link/mine.db", "link.db"):
        (project / "ace.toml").write_text(f'{text}skillbook = "{place}"\n', encoding="utf-8")
        (project / "link").unlink(missing_ok=True)
        (project / "link").symlink_to(private)
        (project / "link.db").unlink(missing_ok=True)
        (project / "link.db").symlink_to(private / "mine.db")
        done = ace("learn", "t.json", "--yes", folder=project, environ={"HOME": str(tmp_path)})
        assert done.code == 2 and "'skillbook' in the file of a project must be a file inside" in done.err, place
    assert server.requests == [] and not (project / "AGENTS.md").exists()


@pytest.mark.parametrize("own", ["variable", "settings"])
@pytest.mark.parametrize("model", ["openai/x", "anthropic/x", "gpt-4o", "groq/x"])
def test_an_address_that_a_project_names_gets_no_key(
    tmp_path: Path, server: ScriptedServer, model: str, own: str
) -> None:
    key = "sk-of-the-user-12345678"
    (tmp_path / "ace.toml").write_text(f'model = "{model}"\napi_base = "{server.api_base}"\n', encoding="utf-8")
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    environ = dict.fromkeys(names, key) if own == "variable" else {"ACE_API_KEY": key}
    Skillbook().save_to_file(tmp_path / "skills.db")
    ace("ask", "What is 2 + 2?", folder=tmp_path, environ=environ)
    assert server.requests
    assert not any(key in str(request.headers) for request in server.requests)


def test_the_user_can_give_the_key_to_the_same_address(tmp_path: Path, server: ScriptedServer) -> None:
    (tmp_path / "ace.toml").write_text(f'model = "openai/x"\napi_base = "{server.api_base}"\n', encoding="utf-8")
    environ = {"OPENAI_API_KEY": "sk-of-the-user-12345678"}
    Skillbook().save_to_file(tmp_path / "skills.db")
    ace("ask", "What is 2 + 2?", "--api-base", server.api_base, folder=tmp_path, environ=environ)
    assert any("sk-of-the-user-12345678" in str(request.headers) for request in server.requests)


def test_a_server_that_wants_a_key_is_explained(tmp_path: Path, server: ScriptedServer) -> None:
    server.script = lambda request: HttpError(401)
    (tmp_path / "ace.toml").write_text(f'model = "openai/x"\napi_base = "{server.api_base}"\n', encoding="utf-8")
    Skillbook().save_to_file(tmp_path / "skills.db")
    done = ace("ask", "What is 2 + 2?", folder=tmp_path, environ={"OPENAI_API_KEY": "sk-of-the-user-12345678"})
    assert done.code and "an address that the file of a project names gets none" in done.err
