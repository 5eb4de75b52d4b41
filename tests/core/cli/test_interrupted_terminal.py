"""Ctrl-C typed at a real terminal, and SIGTERM, at any moment: the terminal and the store are as they should be."""

import json
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Reply, ScriptedRequest, ScriptedServer
from tests.support.terminal import Terminal

HIDES_CURSOR, SHOWS_CURSOR = b"\x1b[?25l", b"\x1b[?25h"
KINDS = ["C", "CC", "T", "TT", "CT"]
"""C is Ctrl-C, T is SIGTERM."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_at_any_moment_leaves_everything_in_order(tmp_path: Path, kind: str) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    lines = [{"task": f"t{number}", "answer": f"LESSON w{number}"} for number in range(60)]
    (tmp_path / "many.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    answer = learning_script(delay=0.05)
    for place, requests in enumerate((0, 1, chance.randrange(2, 30))):
        store = tmp_path / f"{place}.db"
        told = threading.Event()

        def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
            if request.number > requests + 50:  # noqa: B023  # the server ends with this turn of the loop
                told.wait()  # noqa: B023  # so that the run cannot end before it is interrupted
            return answer(request)

        with ScriptedServer(script) as server:
            reached = ["--model", "openai/scripted", "--api-base", server.api_base]
            terminal = Terminal(tmp_path, "learn", "many.jsonl", "--skillbook", store.name, *reached)
            while not store.exists() or len(server.requests) < requests:
                assert terminal.process.poll() is None, terminal.shown
                time.sleep(0.005)
            for what in kind:
                time.sleep(chance.random() * 0.2)
                terminal.send(what)
            while b"ace: " not in terminal.shown and terminal.process.poll() is None:
                time.sleep(0.005)
            told.set()
            assert terminal.wait() == 130, terminal.shown
        shown = bytes(terminal.shown)
        assert b"Traceback" not in shown
        assert b"ace: interrupted" in shown or b"ace: stop" in shown
        assert shown.rfind(SHOWS_CURSOR) >= shown.rfind(HIDES_CURSOR)
        if requests > 1:
            assert HIDES_CURSOR in shown, "the bar hides the cursor"
            assert b"--resume" in shown
        with Skillbook.open(store) as book:
            learned = [source.trace_id for skill in book.skills() for source in skill.sources]
        assert len(learned) == len(set(learned)) < 60
