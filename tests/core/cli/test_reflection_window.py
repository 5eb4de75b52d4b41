"""`--reflection-window` of `ace learn` and `ace train`, and the setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import Run
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

COUNT = 5


@pytest.mark.parametrize("given", ["flag", "variable", "file", "nothing"])
@pytest.mark.parametrize("command", ["learn", "train"])
def test_the_newest_reflections_are_in_the_prompts(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch, given: str, command: str
) -> None:
    lines = [{"question": f"What about w{n}? LESSON w{n}", "answer": "None."} for n in range(COUNT)]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    flags = ["--reflection-window", "2"] if given == "flag" else []
    if given == "variable":
        monkeypatch.setenv("ACE_REFLECTION_WINDOW", "2")
    if given == "file":
        (tmp_path / "ace.toml").write_text("reflection_window = 2\n", encoding="utf-8")
    with ScriptedServer(learning_script()) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        done = here(command, "in.jsonl", *model, *flags, "--lag", "0", "--no-prove", "--no-merge")
    assert done.code == 0, done.err
    shown = [request.text.count("# Recent reflections") for request in server.by_role("reflector")]
    assert shown == ([0] * COUNT if given == "nothing" else [0] + [1] * (COUNT - 1))


def test_a_number_below_0_is_refused(tmp_path: Path, here: Run, model: list[str]) -> None:
    (tmp_path / "in.jsonl").write_text('{"question": "a", "answer": "b"}\n', encoding="utf-8")
    done = here("learn", "in.jsonl", *model, "--yes", "--reflection-window=-1")
    assert done.code == 2
    assert "reflection-window" in done.err and "Traceback" not in done.err
