"""`ace models` in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.cli.console import size_text
from ace.providers.local import CATALOGUE, models_folder
from tests.support.command_line import Run, ace
from tests.support.local_models import needed_model


def test_list_shows_every_model_with_size_and_licence(tmp_path: Path) -> None:
    done = ace("models", "list", folder=tmp_path)
    assert done.code == 0
    for model in CATALOGUE:
        (line,) = [line for line in done.out.splitlines() if line.startswith(model.name)]
        assert size_text(model.size) in line and model.licence in line and " no " in line


def test_list_as_json_has_what_a_script_needs(here: Run) -> None:
    data = here("models", "list", "--json").data
    assert data["schema"] == 1
    assert [entry["sha256"] for entry in data["models"]] == [model.sha256 for model in CATALOGUE]
    assert all(entry["file"] is None for entry in data["models"])


def test_pull_without_a_terminal_says_in_one_line_what_to_run(tmp_path: Path) -> None:
    done = ace("models", "pull", folder=tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    for part in ("1.12 GB", "Apache-2.0", "standard input is not a terminal"):
        assert part in done.err
    assert done.err.endswith("run: ace models pull qwen2.5-coder-1.5b --yes\n")
    assert not (tmp_path / ".cache").exists()


def test_pull_of_an_unknown_model_names_the_known_ones(here: Run) -> None:
    done = here("models", "pull", "gpt-9")
    assert done.code == 2 and "'smollm2-135m'" in done.err


def test_models_alone_says_that_the_default_has_to_be_fetched(here: Run) -> None:
    done = here("models")
    assert done.code == 1
    assert "model: local/qwen2.5-coder-1.5b on this machine (default)" in done.out
    assert "ace models pull qwen2.5-coder-1.5b" in done.out


def test_models_alone_says_that_a_model_answers(tmp_path: Path) -> None:
    name = needed_model("smollm2-135m")
    done = ace("models", "--model", f"local/{name}", folder=tmp_path, environ={"ACE_MODELS": str(models_folder())})
    assert (done.code, done.err) == (0, "")
    assert f"model: local/{name} on this machine (from flag --model)" in done.out and "it answers" in done.out


def test_check_finds_a_file_that_was_changed(here: Run, tmp_path: Path) -> None:
    (tmp_path / CATALOGUE[-1].file_name).write_bytes(b"not a model")
    done = here("models", "check", environ={"ACE_MODELS": str(tmp_path)})
    assert done.code == 1
    assert "is not the maker's file" in done.out and "ace models pull smollm2-135m" in done.out


def test_check_finds_a_whole_model_in_order(tmp_path: Path) -> None:
    name = needed_model("smollm2-135m")
    data = ace("models", "check", "--json", folder=tmp_path, environ={"ACE_MODELS": str(models_folder())}).data
    assert name in data["fetched"] and data["problems"] == []


@pytest.mark.parametrize("command", [[], ["list"], ["pull"], ["check"]])
def test_help_tells_what_each_command_does(here: Run, command: list[str]) -> None:
    done = here("models", *command, "--help")
    assert done.code == 0 and "model" in done.out


def test_a_key_or_an_address_of_other_models_ends_in_no_traceback(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACE_API_KEY", "a-key-of-another-model")
    keyed = here("models", "--json")
    assert (keyed.code, keyed.data["answers"]) == (1, False)
    assert "ace models pull" in keyed.data["problem"]
    monkeypatch.setenv("ACE_API_BASE", "http://127.0.0.1:9/v1")
    addressed = here("ask", "When?")
    assert addressed.code == 2
    assert addressed.err.endswith(
        "runs on this machine, but the api_base 'http://127.0.0.1:9/v1' (variable ACE_API_BASE) is the address of a "
        'server; give --model openai/NAME for a model of that server, or --api-base ""\n'
    )
