"""`--shuffle SEED` takes the inputs in another order in every epoch, the same on every machine and after a kill."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from ace.runners.samples import orders_of_epochs
from tests.support.command_line import ACE, Run, ace, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

TRACES, EPOCHS = 8, 3
REPEATABLE = ["--epochs", str(EPOCHS), "--lag", "0", "--no-merge", "--no-prove"]
# With this seed, no epoch begins with the trace with which the one before ended.
SHUFFLED = ["--shuffle", "6", *REPEATABLE]


def written_inputs(path: Path) -> None:
    """Write samples that can also be read as traces; each teaches a skill."""
    lines = [
        {"question": f"What is trace number {number}? LESSON w{number}", "answer": "a"} for number in range(TRACES)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def orders(requests: Iterable[ScriptedRequest]) -> list[list[int]]:
    """Return the traces that the reflector was shown, epoch by epoch; one that was asked for again counts once."""
    shown = [
        int(re.findall(r"trace number (\d+)", request.text)[-1]) for request in requests if request.role == "reflector"
    ]
    once = [number for number, _ in itertools.groupby(shown)]
    return [once[start : start + TRACES] for start in range(0, len(once), TRACES)]


@pytest.mark.parametrize("command", ["learn", "train"])
def test_every_epoch_has_its_own_order_also_after_a_kill(tmp_path: Path, command: str) -> None:
    written_inputs(tmp_path / "t.jsonl")
    with ScriptedServer(learning_script(delay=0.02)) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        done = ace(command, "t.jsonl", "--skillbook", "whole.db", *SHUFFLED, *model, folder=tmp_path)
        assert done.code == 0, done.err
        whole = orders(server.requests)
        server.clear()
        process = subprocess.Popen(
            [str(ACE), command, "t.jsonl", "--skillbook", "broken.db", *SHUFFLED, *model],
            cwd=tmp_path,
            env=command_environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while len([request for request in server.answered if request.role == "reflector"]) < TRACES + 3:
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
        process.wait()
        server.wait_until_idle()
        done = ace(command, "t.jsonl", "--skillbook", "broken.db", "--resume", *SHUFFLED, *model, folder=tmp_path)
        assert done.code == 0, done.err
        broken = orders(server.requests)
    assert [sorted(order) for order in whole] == [list(range(TRACES))] * EPOCHS
    assert whole[0] != whole[1] != whole[2] != whole[0]
    assert broken == whole
    books = []
    for name in ("whole", "broken"):
        done = ace("skillbook", "export", f"{name}.json", "--skillbook", f"{name}.db", folder=tmp_path)
        assert done.code == 0, done.err
        books.append((tmp_path / f"{name}.json").read_bytes())
    assert books[0] == books[1]
    assert books[0].count(b'"content": "Remember LESSON w') == TRACES


@pytest.mark.parametrize("given", ["flag", "variable", "file", "nothing"])
def test_the_seed_comes_from_each_source_of_settings(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    written_inputs(tmp_path / "t.jsonl")
    if given == "variable":
        monkeypatch.setenv("ACE_SHUFFLE", "5")
    if given == "file":
        (tmp_path / "ace.toml").write_text("shuffle = 5\n", encoding="utf-8")
    with ScriptedServer(learning_script()) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--yes"]
        done = here("learn", "t.jsonl", *model, *(SHUFFLED if given == "flag" else REPEATABLE), "--json")
    assert done.code == 0, done.err
    taken = orders(server.requests)
    assert (len({tuple(order) for order in taken}) == EPOCHS) == (given != "nothing")
    assert (taken[0] == list(range(TRACES))) == (given == "nothing")


def test_the_order_depends_on_nothing_but_the_seed_the_epoch_and_the_number_of_inputs() -> None:
    inputs = list("abcdefgh")
    taken = ["".join(order) for order in itertools.islice(orders_of_epochs(inputs, 5), 3)]
    assert taken == ["bgcdefha", "ghcfabed", "dbgceafh"]
    assert "".join(next(orders_of_epochs(inputs, -5))) != taken[0]
    assert [*itertools.islice(orders_of_epochs(inputs, None), 2)] == [inputs, inputs]
    with pytest.raises(ValueError, match="shuffle needs inputs that can be reordered; a generator cannot: pass a list"):
        orders_of_epochs((path for path in inputs), 5)


@pytest.mark.parametrize("count", range(6))
@pytest.mark.parametrize("seed", range(5))
def test_no_order_is_used_twice_before_each_was_used(count: int, seed: int) -> None:
    many = math.factorial(count)
    taken = [tuple(order) for order in itertools.islice(orders_of_epochs(range(count), seed), 2 * many)]
    assert len(set(taken[:many])) == many
    if count > 1:
        assert all(order != following for order, following in itertools.pairwise(taken))
