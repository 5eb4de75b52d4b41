"""The sets: recorded chats with corrections, and the questions that they decide."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ace import read_trace
from ace.environments import Sample
from ace.runners import RecordedTrace

__all__ = ["CorrectedExample", "LearningSet", "load_set", "set_names", "shuffled"]

SETS = Path(__file__).parent / "sets"


@dataclass(frozen=True)
class CorrectedExample:
    """One correction, as it is shown to a model or given to another method."""

    task: str
    wrong: str
    correction: str
    right: str

    @property
    def text(self) -> str:
        """The example as four lines."""
        return (
            f"Task: {self.task}\nWrong answer: {self.wrong}\nCorrection: {self.correction}\nRight answer: {self.right}"
        )


@dataclass(frozen=True)
class LearningSet:
    """The chats and the questions of one set."""

    name: str
    traces: tuple[RecordedTrace, ...]
    """In the order of their file names."""
    questions: tuple[Sample, ...]


def set_names(folder: Path = SETS) -> list[str]:
    """Return the names of the sets in a folder."""
    return sorted(path.name for path in folder.iterdir() if (path / "heldout.jsonl").is_file())


def load_set(name: str, folder: Path = SETS) -> LearningSet:
    """Read one set.

    Raises:
        ValueError: It has no traces or no questions.
    """
    traces = [
        RecordedTrace(json.loads(file.read_text(encoding="utf-8")), f"{name}/traces/{file.name}")
        for file in sorted((folder / name / "traces").glob("*.json"))
    ]
    lines = (folder / name / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [_sample(json.loads(line)) for line in lines if line.strip()]
    if not traces or not questions:
        raise ValueError(f"the set {name!r} needs traces and questions, and has {len(traces)} and {len(questions)}")
    return LearningSet(name, tuple(traces), tuple(questions))


def shuffled(traces: Sequence[RecordedTrace], seed: int) -> list[RecordedTrace]:
    """Return the traces in an order that depends on the seed only."""
    return random.Random(seed).sample(list(traces), len(traces))


def corrected_examples(traces: Sequence[RecordedTrace]) -> list[CorrectedExample]:
    """Return the corrections of the traces, in their order. No model is asked."""
    return [
        CorrectedExample(correction["question"], correction["wrong"], correction["correction"], correction["right"])
        for trace in traces
        for correction in read_trace(trace.record)["corrections"]
    ]


def _sample(record: dict[str, Any]) -> Sample:
    return Sample(record["question"], ground_truth=record["ground_truth"], id=record["id"])
