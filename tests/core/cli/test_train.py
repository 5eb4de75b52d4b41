"""`ace train`: the agent gets better from epoch to epoch."""

import json
from collections.abc import Sequence
from pathlib import Path

from tests.support.command_line import Run, ace


def write_samples(path: Path, samples: Sequence[object]) -> None:
    path.write_text("".join(f"{json.dumps(sample)}\n" for sample in samples), encoding="utf-8")


def test_what_one_epoch_teaches_the_next_one_knows(tmp_path: Path, model: list[str]) -> None:
    words = ["boat", "river", "tent"]
    write_samples(
        tmp_path / "samples.jsonl",
        [{"question": f"What about the {word}?", "target": f"LESSON {word}"} for word in words] + [{"no": "question"}],
    )
    command = ["train", "samples.jsonl", "--environment", "exact", "--epochs", "2", "--json"]
    done = ace(*command, *model, folder=tmp_path)
    report = done.data
    assert done.code == 1
    assert report["answers"] == [
        {"epoch": 1, "right": 0, "of": 3, "not_judged": 0},
        {"epoch": 2, "right": 3, "of": 3, "not_judged": 0},
    ]
    assert [(failure["place"], failure["stage"]) for failure in report["failures"]] == [("samples.jsonl#4", "input")]
    assert {skill["content"]: skill["traces"] for skill in report["new_skills"]} == {
        f"Remember LESSON {word}.": [f"samples.jsonl#{number}"] for number, word in enumerate(words, 1)
    }
    assert report["skills"]["tagged"] == 3


def test_records_that_are_no_samples_are_told(here: Run, tmp_path: Path, model: list[str]) -> None:
    write_samples(tmp_path / "samples.jsonl", [["a list"], {"answer": "only"}])
    done = here("train", "samples.jsonl", *model)
    assert done.code == 2 and "samples.jsonl#1" in done.err and done.err.count("\n") == 1
