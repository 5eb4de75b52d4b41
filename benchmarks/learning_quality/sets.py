"""The sets: recorded chats with corrections, and the questions that they decide."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ace.environments import Sample
from ace.runners import RecordedTrace
from ace.traces import TraceCorrection

__all__ = [
    "CorrectedExample",
    "LearningSet",
    "corrected_examples",
    "labelled_corrections",
    "load_set",
    "set_names",
    "shuffled",
]

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
    """Return the corrections of the traces, in their order, as they are labelled. No model is asked."""
    return [
        CorrectedExample(correction["question"], correction["wrong"], correction["correction"], correction["right"])
        for trace in traces
        for correction in labelled_corrections(trace)
    ]


def labelled_corrections(trace: RecordedTrace) -> list[TraceCorrection]:
    """Return the corrections in a trace, as `corrections.jsonl` beside the traces lists them.

    Args:
        trace: A trace of a set.
    """
    name, _, file = trace.place.partition("/traces/")
    return [
        TraceCorrection(**{field: label[field] for field in TraceCorrection.__annotations__})  # type: ignore[typeddict-item]  # the names are its own
        for label in _labels(name)
        if label["trace"] == file
    ]


@functools.cache
def _labels(name: str) -> list[dict[str, str]]:
    lines = (SETS / name / "corrections.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _sample(record: dict[str, Any]) -> Sample:
    return Sample(record["question"], ground_truth=record["ground_truth"], id=record["id"])
