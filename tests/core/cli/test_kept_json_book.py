"""A JSON skillbook is saved after each sample: what a killed command has reported is in the file."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import ACE, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Reply, ScriptedRequest, ScriptedServer

TRACES = 30


@pytest.mark.parametrize("learned", [1, 2, 5, 9, 10, 11, 20, TRACES - 1])
def test_what_a_killed_run_has_reported_is_in_the_file(tmp_path: Path, learned: int) -> None:
    lines = [json.dumps({"task": f"t{number}", "answer": f"LESSON w{number}"}) for number in range(TRACES)]
    (tmp_path / "many.jsonl").write_text("\n".join(lines), encoding="utf-8")
    is_held, is_killed = threading.Event(), threading.Event()
    answer = learning_script()

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        # With --lag 0, all samples before this one have been learned.
        if request.role == "reflector" and f"LESSON w{learned}" in request.text:
            is_held.set()
            is_killed.wait()
        return answer(request)

    with ScriptedServer(script) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        process = subprocess.Popen(
            [str(ACE), "learn", "many.jsonl", "--skillbook", "book.json", "--no-merge", "--lag", "0", *model],
            cwd=tmp_path,
            env=command_environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not is_held.wait(0.05):
            assert process.poll() is None, process.communicate()
        process.kill()
        _, shown = process.communicate()
        is_killed.set()
    kept = len(Skillbook.load_from_file(tmp_path / "book.json"))
    assert learned > 1 or (kept == 1 and "1 new skill" in shown), shown
    # On a busy machine, where a save may take long, up to ten samples are saved together.
    assert max(1, learned - 9) <= kept <= learned
