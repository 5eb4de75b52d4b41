"""Data sets for training, which are not runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.logs import Problem, Run, read_runs
from tests.core.logs.log_files import runs_of, written


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


@pytest.mark.parametrize(
    ("example", "task", "answer", "truth", "success"),
    [
        ({"prompt": "2+2?", "chosen": "4", "rejected": "5"}, "2+2?", "5", "4", False),
        (
            {"prompt": [user("2+2?")], "chosen": [assistant("4")], "rejected": [assistant("5")], "score_chosen": 9},
            *("2+2?", "5", "4", False),
        ),
        (
            {"chosen": [user("2+2?"), assistant("4")], "rejected": [user("2+2?"), assistant("5")]},
            "2+2?",
            "5",
            "4",
            False,
        ),
        (
            {"prompt": "2+2?", "chosen": [user("2+2?"), assistant("4")], "rejected": [user("2+2?"), assistant("5")]},
            *("2+2?", "5", "4", False),
        ),
        (
            {"chosen": "\n\nHuman: 2+2?\n\nAssistant: 4", "rejected": "\n\nHuman: 2+2?\n\nAssistant: 5"},
            *("Human: 2+2?\n\nAssistant:", "5", "4", False),
        ),
        ({"prompt": "2+2?", "completion": "5", "label": False}, "2+2?", "5", None, False),
        ({"prompt": "2+2?", "completion": "4", "label": True}, "2+2?", "4", None, True),
        ({"prompt": "2+2?", "completions": ["Add.", "5"], "labels": [True, False]}, "2+2?", "5", None, False),
        ({"instruction": "Add.", "input": "2, 2", "output": "4"}, "Add.\n\n2, 2", "4", "4", None),
        (
            {
                "input": {"messages": [user("2+2?")], "tools": []},
                "preferred_output": [assistant("4")],
                "non_preferred_output": [assistant("5")],
            },
            *("2+2?", "5", "4", False),
        ),
        ({"messages": [user("2+2?"), assistant("5", weight=0), user("No."), assistant("4")]}, "2+2?", "4", "4", None),
    ],
)
def test_an_example(
    tmp_path: Path, example: Any, task: str, answer: str, truth: str | None, success: bool | None
) -> None:
    notice, *runs = read_runs(written(tmp_path / "train.jsonl", example, example))

    assert isinstance(notice, Problem) and "not runs of an agent" in notice.reason
    for run in runs:
        assert isinstance(run, Run)
        assert (run.task, run.answer, run.truth, run.success) == (task, answer, truth, success)
    assert len(runs) == 2


def test_a_wrong_step_is_the_reason(tmp_path: Path) -> None:
    example = {"prompt": "2+2?", "completions": ["Add.", "5"], "labels": [True, False]}

    _, run = read_runs(written(tmp_path / "train.jsonl", example))

    assert isinstance(run, Run) and run.reason == "This step is wrong: 5"


def test_chats_without_weights_are_runs(tmp_path: Path) -> None:
    [run] = runs_of(written(tmp_path / "chats.jsonl", {"messages": [user("2+2?"), assistant("4")]}))

    assert (run.answer, run.truth) == ("4", None)
