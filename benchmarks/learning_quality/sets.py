"""The sets: recorded chats with corrections or failed calls of tools, and the questions that they decide."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ace import read_trace
from ace.cases import check_passes, failed_calls
from ace.environments import EnvironmentResult, Sample, SimpleEnvironment
from ace.outputs import AgentOutput
from ace.runners import RecordedTrace
from ace.skill import CaseCheck

__all__ = ["CorrectedExample", "HeldOutQuestions", "LearningSet", "load_set", "set_names", "shuffled"]

_OF_CALL = ("Failed call", "Error", "Call that worked")
SETS = Path(__file__).parent / "sets"


@dataclass(frozen=True)
class CorrectedExample:
    """One correction or failed call, as it is shown to a model or given to another method."""

    task: str
    wrong: str
    correction: str
    right: str
    titles: tuple[str, str, str] = ("Wrong answer", "Correction", "Right answer")

    @property
    def text(self) -> str:
        """The example as lines, without a right answer if there is none."""
        fields = zip(self.titles, (self.wrong, self.correction, self.right), strict=True)
        return "\n".join([f"Task: {self.task}", *(f"{title}: {text}" for title, text in fields if text)])


class HeldOutQuestions(SimpleEnvironment):
    """Judges the answers to the questions of a set: by the check of the question, or else strictly by its answer."""

    def __init__(self) -> None:
        super().__init__("strict")

    def evaluate(self, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        """Judge one answer."""
        check = sample.metadata.get("check")
        if check is None:
            return super().evaluate(sample, agent_output)
        passed = check_passes(CaseCheck(**check), agent_output.final_answer)
        feedback = "Correct." if passed else f"Incorrect: the answer should be such as {sample.ground_truth}."
        return EnvironmentResult(feedback, sample.ground_truth, {"correct": 1.0 if passed else 0.0})


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
    """Return the corrections and the failed calls of the traces, in their order. No model is asked."""
    found: list[CorrectedExample] = []
    for trace in traces:
        read = read_trace(trace.record)
        found += [
            CorrectedExample(correction["question"], correction["wrong"], correction["correction"], correction["right"])
            for correction in read["corrections"]
        ]
        found += [
            CorrectedExample(read["question"], call.failed, call.error, call.worked, _OF_CALL)
            for call in failed_calls(read["steps"], read["question"])
        ]
    return found


def _sample(record: dict[str, Any]) -> Sample:
    metadata = {"check": record["check"]} if "check" in record else {}
    return Sample(record["question"], ground_truth=record["ground_truth"], id=record["id"], metadata=metadata)
