"""`ace train --validate`: the best state is kept, and the gate needs a history."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ace.environments import Sample
from ace.skillbook import Skillbook
from tests.core.evaluation.test_training import LEARN_THEN_FORGET, UP, VALIDATION, misled_by_iron
from tests.core.evaluation.world import served
from tests.support.command_line import ace

OPTIONS = ["--environment", "exact", "--lag", "0", "--no-merge", "--validation-interval", "2"]


def write(path: Path, samples: Sequence[Sample]) -> None:
    lines = [json.dumps({"question": sample.question, "target": sample.ground_truth}) for sample in samples]
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(("skillbook", "gate"), [("skills.json", []), ("skills.db", []), ("skills.db", ["--gate"])])
def test_the_best_state_is_kept(tmp_path: Path, skillbook: str, gate: list[str]) -> None:
    write(tmp_path / "train.jsonl", LEARN_THEN_FORGET)
    write(tmp_path / "validate.jsonl", VALIDATION)
    with served(misled_by_iron) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base, "--skillbook", skillbook]
        done = ace("train", "train.jsonl", "--validate", "validate.jsonl", *OPTIONS, *gate, *model, folder=tmp_path)
    assert done.code == 0, done.err
    assert "validation after 2 samples: 100.0%" in done.err
    assert ("taken back by the gate (it was 100.0%)" in done.err) == bool(gate)
    with Skillbook.open(tmp_path / skillbook) as book:
        assert [skill.content for skill in book.skills()] == [UP]


def test_wrong_usage_says_what_is_missing(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", LEARN_THEN_FORGET)
    command = ["train", "train.jsonl", "--model", "openai/none", "--gate"]
    assert "give --validate FILE" in ace(*command, folder=tmp_path).err
    done = ace(*command, "--validate", "train.jsonl", "--skillbook", "skills.json", folder=tmp_path)
    assert (done.code, "keeps no history" in done.err) == (2, True)
