"""A killed run goes on with `--resume`: each trace is learned once, and no recorded answer is paid for again."""

import json
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

from ace.skillbook import Skillbook
from tests.support.command_line import ACE, ace, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

TRACES = 30
KILLS = 3


def contents(path: Path) -> str:
    with Skillbook.open(path) as book:
        return book.dumps()


def test_a_run_that_is_killed_again_and_again_ends_like_an_unbroken_one(tmp_path: Path) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chosen = random.Random(seed)
    lines = [{"task": f"t{number}", "answer": f"LESSON w{number}"} for number in range(TRACES)]
    (tmp_path / "many.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    with ScriptedServer(learning_script(delay=0.02)) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        command = ["learn", "many.jsonl", "--lag", "0", "--no-merge", *model]
        unbroken = ace(*command, "--skillbook", "unbroken.db", "--json", folder=tmp_path)
        assert unbroken.code == 0, unbroken.err
        server.clear()
        killed = 0
        while killed < KILLS:
            wanted = len(server.answered) + chosen.randrange(1, 2 * TRACES // KILLS)
            process = subprocess.Popen(
                [str(ACE), *command, "--skillbook", "broken.db", "--resume"],
                cwd=tmp_path,
                env=command_environment(tmp_path),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            while len(server.answered) < wanted and process.poll() is None:
                time.sleep(0.001)
            time.sleep(chosen.random() * 0.02)
            process.kill()
            process.wait()
            server.wait_until_idle()
            killed += 1
        last = ace(*command, "--skillbook", "broken.db", "--resume", "--json", folder=tmp_path)
        asked = Counter(request.text for request in server.answered if request.role)
    assert last.code == 0, last.err
    assert last.data["traces"]["learned"] + last.data["traces"]["already_learned"] == TRACES
    assert contents(tmp_path / "broken.db") == contents(tmp_path / "unbroken.db")
    # An answer that was on its way when the process was killed was not recorded: one for each kill, at most.
    assert sum(times - 1 for times in asked.values()) <= KILLS
    assert len(asked) == unbroken.data["model_use"]["calls"] - 1, "the check of the model is no call of a role"
