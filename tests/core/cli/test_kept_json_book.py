"""A JSON skillbook is saved after each sample: what a killed command has reported is in the file."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import ACE, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

pytestmark = pytest.mark.thorough

KILLS = 8
TRACES = 30


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: a save takes long on a disk that others use."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="ace-test-", dir=memory) as made:
        yield Path(made)


def test_what_a_killed_run_has_reported_is_in_the_file(folder: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    lines = [json.dumps({"task": f"t{number}", "answer": f"LESSON w{number}"}) for number in range(TRACES)]
    (folder / "many.jsonl").write_text("\n".join(lines), encoding="utf-8")
    fell_inside = 0
    missing: list[int] = []
    with ScriptedServer(learning_script(delay=0.01)) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        for number in range(KILLS):
            path = folder / f"{number}.json"
            server.clear()
            process = subprocess.Popen(
                [str(ACE), "learn", "many.jsonl", "--skillbook", path.name, "--no-merge", "--lag", "0", *model],
                cwd=folder,
                env=command_environment(folder),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stderr is not None
            shown = 0
            while not shown:  # the first line of progress comes with the first sample
                found = re.search(r"(\d+) new skill", process.stderr.readline())
                shown = int(found[1]) if found else 0
            time.sleep(chance.random() * 0.2)
            # A sample is learned when the next one is reflected on: with --lag 0 they do not overlap.
            begun = len(server.by_role("reflector"))
            process.kill()
            process.communicate()
            fell_inside += begun < TRACES
            kept = len(Skillbook.load_from_file(path))
            assert kept >= shown, f"{shown} reported, {begun} begun, {kept} kept"
            missing.append(max(0, begun - 1 - kept))
    assert fell_inside
    # On a busy machine, where a save may take long, up to ten samples are saved together.
    assert max(missing) < 10 and missing.count(0) > KILLS / 2, missing
