"""The benchmark of `ace sleep`: what it asks is fair, and a slice of it with the real command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sleep.__main__ import main
from benchmarks.sleep.acting import Acted, LiteralAgent, work
from benchmarks.sleep.literal import Wishes, wishes_of
from benchmarks.sleep.repositories import SAMPLES
from benchmarks.sleep.samples import Sample
from benchmarks.sleep.text_model import answer_to, wording_of
from tests.requirement import missing


def acted(sample: Sample, text: str) -> list[Acted]:
    if sample.language == "JavaScript" and shutil.which("node") is None:
        missing("node", "it is not on PATH")
    return [work(sample, prompt, text, LiteralAgent()) for prompt in sample.prompts]


def test_there_are_nine_rules_and_three_traps_with_four_sessions_and_six_prompts() -> None:
    kinds = [sample.kind for sample in SAMPLES]
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    assert counts == {
        "command": 4,
        "generated": 2,
        "convention": 2,
        "order": 1,
        "transient": 1,
        "wrong person": 1,
        "reward hack": 1,
    }
    assert {(len(sample.sessions), len(sample.reworded), len(sample.other)) for sample in SAMPLES} == {(4, 2, 4)}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_an_agent_that_knows_the_rule_does_everything_right(sample: Sample) -> None:
    found = acted(sample, sample.rule)
    assert [(one.passes, one.first_right, one.trapped) for one in found] == [(True, True, False)] * 6


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_an_agent_that_knows_nothing_begins_wrongly_unless_it_is_a_trap(sample: Sample) -> None:
    assert {one.first_right for one in acted(sample, "")} == {sample.is_trap}


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("Run `make check`; `pytest` fails here: it is missing.", ["make check"], ["pytest"]),
        ("- Use `a && b` instead of `c`, because `d` asks for it.", ["a", "b", "d"], ["c"]),
        ("If `pytest` fails with an error, change `a.py`.", [], []),
    ],
)
def test_text_is_obeyed_literally(text: str, wanted: list[str], unwanted: list[str]) -> None:
    assert wishes_of(text) == Wishes(tuple(wanted), tuple(unwanted))


def test_a_condition_counts_once_the_command_has_failed() -> None:
    assert wishes_of("If `pytest` fails with an error, change `a.py`.", ["pytest"]).wanted == ("a.py",)


def test_the_model_of_texts_knows_only_what_is_in_the_prompt() -> None:
    assert wording_of("What failed:  pytest\nIts error:    E: no\nWhat worked:  make check\n") == (
        "Run `make check`, never `pytest`, because of this error: E: no"
    )
    mining = "You are mining a user's past\nuser prompts:\n  - Run the tests\n  - No, use `make check`.\n"
    mined = json.loads(answer_to(f"{mining}assistant final (last):\nDone.\nfeedback signals: (none)"))
    assert [task["checks"] for task in mined] == [[{"op": "contains", "arg": "make check"}]]


def test_a_slice_of_it_with_the_real_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "scores.json"
    options = ["--seeds", "1", "--repositories", "shop", "queue", "--arms", "nothing", "ace", "skillopt"]
    assert main([*options, "--other-python", "/bin/false", "--out", str(out)]) == 0
    scores: dict[str, Any] = {one["arm"]: one for one in json.loads(out.read_text("utf-8"))["scores"]}
    assert [(one["rules"], one["traps"], one["wrong_labels"]) for one in scores.values()] == [
        ([], [], []),
        (["shop"], [], []),
        ([], [], []),
    ]
    [lesson] = scores["ace"]["learned"]["lessons"]
    assert (lesson["repository"], lesson["proven"]) == ("shop", True)
    assert scores["ace"]["learned"]["foreign"] == []
    assert "skipped: /bin/false has no skillopt" in capsys.readouterr().out
