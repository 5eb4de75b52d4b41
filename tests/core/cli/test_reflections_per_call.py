"""`--reflections-per-call` of `ace learn` and `ace train`, and the setting."""

from __future__ import annotations

import json
import time
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
    answer = learning_script()

    def script(request: ScriptedRequest) -> Any:
        # Two samples wait when the first update is over: three are reflected on at once, and one is updated.
        while request.role.startswith("skill_manager") and len(server.by_role("reflector")) < 3 + 1 + 2:
            time.sleep(0.01)
        return answer(request)

    with ScriptedServer(script) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        done = here(command, "in.jsonl", *model, *flags, "--lag", "10", "--no-prove", "--no-merge", "--json")
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
