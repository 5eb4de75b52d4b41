"""The second `ace learn` over the same traces learns nothing and pays nothing; failures can be given up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import Done, Run
from tests.support.scripted_server import ScriptedServer


def test_a_second_run_learns_nothing_and_asks_nothing(
    logs: Path, tmp_path: Path, server: ScriptedServer, model: list[str], here: Run
) -> None:
    first = here("learn", logs, *model, "--json")
    assert (first.code, first.data["traces"]["learned"]) == (0, 6)
    asked = len(server.requests)
    second = here("learn", logs, *model, "--json")
    assert second.code == 0, second.err
    assert "nothing to do: all 6 traces had been learned before; --again learns them again" in second.err
    traces = second.data["traces"]
    assert (traces["learned"], traces["already_learned"], traces["not_begun"]) == (0, 6, 0)
    assert second.data["skills"]["added"] == 0
    assert here("learn", logs, *model, "--resume").code == 0
    assert len(server.requests) == asked
    again = here("learn", logs, *model, "--again", "--json")
    assert (again.code, again.data["traces"]["learned"]) == (0, 6)
    assert len(server.requests) > asked


def test_only_new_traces_are_learned_wherever_they_are(
    logs: Path, tmp_path: Path, server: ScriptedServer, model: list[str], here: Run
) -> None:
    assert here("learn", logs, *model).code == 0
    server.clear()
    with (logs / "a.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"task": "new", "answer": "LESSON new"}) + "\n")
    (logs / "c.txt").rename(logs / "moved.txt")
    chat = json.loads((logs / "b.json").read_text(encoding="utf-8"))
    chat += [{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "LESSON later"}]
    (logs / "b.json").write_text(json.dumps(chat, indent=2), encoding="utf-8")
    done = here("learn", logs, *model, "--json")
    assert done.code == 0, done.err
    assert "5 of 7 traces had been learned before" in done.err
    assert (done.data["traces"]["learned"], done.data["traces"]["already_learned"]) == (2, 5)
    prompts = [request.text for request in server.by_role("reflector")]
    assert len(prompts) == 2
    assert not any("LESSON chat" in prompt for prompt in prompts), "an old turn was learned again"
    assert any("LESSON later" in prompt for prompt in prompts)


def test_a_json_skillbook_says_that_it_does_not_remember(
    logs: Path, tmp_path: Path, model: list[str], here: Run
) -> None:
    def learn() -> Done:
        return here("learn", logs, *model, "--skillbook", "s.json", "--json")

    assert "does not record" not in learn().err
    second = learn()
    assert (second.code, second.data["traces"]["learned"]) == (0, 6)
    assert "'s.json' does not record what it has learned from, so every trace is learned" in second.err


def test_what_fails_again_and_again_can_be_given_up(
    logs: Path, tmp_path: Path, server: ScriptedServer, model: list[str], here: Run
) -> None:
    (logs / "d.txt").write_text("UNUSABLE", encoding="utf-8")
    assert "nothing to give up" in here("learn", logs, *model, "--give-up").err
    first = here("learn", logs, *model)
    assert first.code == 1
    assert "1 trace failed" in first.err and "--resume continues the run" in first.err
    second = here("learn", logs, *model, "--resume", "--json")
    assert (second.code, len(second.data["failures"])) == (1, 1), "it stays resumable until it is learned or given up"
    asked = len(server.requests)
    given_up = here("learn", logs, *model, "--give-up", "--json")
    assert (given_up.code, given_up.data["given_up"]) == (0, 1), given_up.err
    for extra in ([], ["--resume"]):
        done = here("learn", logs, *model, *extra, "--json")
        assert (done.code, done.data["traces"]["already_learned"]) == (0, 7)
    assert len(server.requests) == asked
    assert here("learn", logs, *model, "--again").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["learn", "nothere.json"],
        ["learn", "logs", "--model", "openai/unknown"],
        ["learn", "logs", "--epochs", "0"],
        ["train", "samples.json", "--validate", "nothere.json"],
        ["train", "samples.json", "--validate", "samples.json"],
        ["train", "logs/b.json"],
    ],
    ids=" ".join,
)
def test_a_command_that_fails_leaves_no_skillbook(
    arguments: list[str], logs: Path, tmp_path: Path, server: ScriptedServer, model: list[str], here: Run
) -> None:
    samples = [{"question": "What about w1?", "target": "LESSON w1"}]
    (tmp_path / "samples.json").write_text(json.dumps(samples), encoding="utf-8")
    named = model[2:] if "--model" in arguments else model
    done = here(*arguments, *named)
    assert done.code == 2, done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "samples.json"]


@pytest.mark.parametrize("suffix", [".json", ".db"])
def test_a_skillbook_with_an_impossible_name_is_refused_before_anything_is_paid(
    suffix: str, logs: Path, tmp_path: Path, server: ScriptedServer, model: list[str], here: Run
) -> None:
    done = here("learn", logs, *model, "--skillbook", "a" * 252 + suffix)
    assert done.code == 2
    assert "File name too long" in done.err and "give --skillbook elsewhere" in done.err
    assert server.requests == []


def test_a_skillbook_with_the_longest_possible_name_is_kept(
    logs: Path, tmp_path: Path, model: list[str], here: Run
) -> None:
    name = "a" * 250 + ".json"
    done = here("learn", logs, *model, "--skillbook", name)
    assert done.code == 0, done.err
    assert len(Skillbook.load_from_file(tmp_path / name)) == 5
