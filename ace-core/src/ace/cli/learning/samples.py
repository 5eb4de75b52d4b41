"""Turns records into samples for an agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from ace.cli.inputs import InputProblem
from ace.environments import Sample
from ace.implementations.trace_reading.reader import ALIASES

__all__ = ["sample_of"]

_QUESTION: Final = ALIASES["question"]
_GROUND_TRUTH: Final = ("ground_truth", "target", "expected", "expected_output", "reference", "answer", "label")


def sample_of(record: object, place: str) -> Sample | InputProblem:
    """Return the sample that a record holds, or why it holds none.

    Args:
        record: A JSON value.
        place: Where it was found; the name of the sample if it has no id of its own.

    Example:
        >>> sample_of({"question": "2+2?", "answer": 4}, "a.jsonl#1")
        Sample(question='2+2?', context='', ground_truth='4', metadata={}, id='a.jsonl#1')
    """
    if not isinstance(record, Mapping):
        return InputProblem(place, "not a sample: a sample is an object with a question")
    question, context = _text(record, _QUESTION), _text(record, ("context",))
    if question is None:
        # Some data sets put the whole question into the context.
        question, context = context, None
    if question is None:
        return InputProblem(place, f"there is no question; a sample has it in the field {' or '.join(_QUESTION)}")
    own = record.get("id")
    name = f"{place}:{own}" if isinstance(own, str | int) else place
    return Sample(question, context or "", _text(record, _GROUND_TRUTH), id=name)


def _text(record: Mapping[str, object], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = record.get(name)
        if value is not None and value != "":
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return None
