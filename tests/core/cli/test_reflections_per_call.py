"""`--reflections-per-call` of `ace learn` and `ace train`, and the setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Run
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

COUNT = 30


def traces(path: Path) -> Path:
    lines = [
        {"question": f"What about w{n}? LESSON w{n}", "answer": "None.", "ground_truth": "x"} for n in range(COUNT)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def slow_updates(request: ScriptedRequest) -> Any:
    """Take so long for an update that other samples wait."""
    return learning_script(delay=0.0 if request.role in ("reflector", "agent") else 0.05)(request)


@pytest.mark.parametrize("given", ["flag", "variable", "file", "nothing"])
@pytest.mark.parametrize("command", ["learn", "train"])
def test_several_reflections_are_asked_about_in_one_call(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch, given: str, command: str
) -> None:
    traces(tmp_path / "in.jsonl")
    flags = ["--reflections-per-call", "8"] if given == "flag" else []
    if given == "variable":
        monkeypatch.setenv("ACE_REFLECTIONS_PER_CALL", "8")
    if given == "file":
        (tmp_path / "ace.toml").write_text("reflections_per_call = 8\n", encoding="utf-8")
    with ScriptedServer(slow_updates) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        done = here(command, "in.jsonl", *model, *flags, "--no-prove", "--no-merge", "--json")
    assert done.code == 0, done.err
    assert bool(server.by_role("skill_manager_together")) == (given != "nothing")
    done = here("skillbook", "show", "--json")
    assert sorted(skill["content"] for skill in done.data["skills"]) == sorted(
        f"Remember LESSON w{n}." for n in range(COUNT)
    )


@pytest.mark.parametrize("value", ["0", "17", "many"])
def test_a_number_out_of_range_is_refused(tmp_path: Path, here: Run, model: list[str], value: str) -> None:
    traces(tmp_path / "in.jsonl")
    done = here("learn", "in.jsonl", *model, "--yes", "--reflections-per-call", value)
    assert done.code == 2
    assert "reflections-per-call" in done.err and "Traceback" not in done.err
