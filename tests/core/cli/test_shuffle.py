"""`--shuffle SEED` takes the inputs in another order in every epoch, the same on every machine and after a kill."""

import itertools
import json
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from ace.runners.samples import in_order_of_epoch
from tests.support.command_line import ACE, ace, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

TRACES, EPOCHS = 8, 3
SHUFFLED = ["--shuffle", "5", "--epochs", str(EPOCHS), "--lag", "0", "--no-merge"]


def orders(requests: Iterable[ScriptedRequest]) -> list[list[int]]:
    """Return the traces that the reflector was shown, epoch by epoch; one that was asked for again counts once."""
    shown = [int(re.findall(r"trace number (\d+)", each.text)[-1]) for each in requests if each.role == "reflector"]
    once = [number for number, _ in itertools.groupby(shown)]
    return [once[start : start + TRACES] for start in range(0, len(once), TRACES)]


@pytest.mark.thorough
def test_every_epoch_has_its_own_order_also_after_a_kill(tmp_path: Path) -> None:
    lines = [{"task": f"trace number {number}", "answer": "a"} for number in range(TRACES)]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    with ScriptedServer(learning_script(delay=0.02)) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        done = ace("learn", "t.jsonl", "--skillbook", "whole.db", *SHUFFLED, *model, folder=tmp_path)
        assert done.code == 0, done.err
        whole = orders(server.requests)
        server.clear()
        process = subprocess.Popen(
            [str(ACE), "learn", "t.jsonl", "--skillbook", "broken.db", *SHUFFLED, *model],
            cwd=tmp_path,
            env=command_environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while len([each for each in server.answered if each.role == "reflector"]) < TRACES + 3:
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
        process.wait()
        done = ace("learn", "t.jsonl", "--skillbook", "broken.db", "--resume", *SHUFFLED, *model, folder=tmp_path)
        assert done.code == 0, done.err
        broken = orders(server.requests)
    assert [sorted(order) for order in whole] == [list(range(TRACES))] * EPOCHS
    assert whole[0] != whole[1] != whole[2] != whole[0]
    assert broken == whole


def test_the_order_depends_on_nothing_but_the_seed_the_epoch_and_the_inputs() -> None:
    inputs = list("abcdefgh")
    taken = ["".join(in_order_of_epoch(inputs, 5, epoch)) for epoch in (1, 2, 3)]
    assert taken == ["gdbahcfe", "gaefdbhc", "hbgadfec"]
    assert "".join(in_order_of_epoch(inputs, 6, 1)) != taken[0]
    assert in_order_of_epoch(inputs, None, 2) == inputs
    with pytest.raises(ValueError, match="shuffle needs inputs that can be reordered; a generator cannot: pass a list"):
        in_order_of_epoch((each for each in inputs), 5, 1)
