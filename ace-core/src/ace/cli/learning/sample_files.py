"""Reads samples from files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Final

from ace.cli.errors import UsageError
from ace.cli.inputs import LARGEST_INPUT, GatheredTraces, InputProblem, StoredRecord, gather_traces
from ace.cli.inputs.problems import problem_lines
from ace.environments import Sample

__all__ = ["all_samples", "sample_of", "samples_in"]

_QUESTION: Final = ("question", "task", "input", "query", "prompt", "instruction")
_GROUND_TRUTH: Final = ("ground_truth", "target", "expected", "expected_output", "reference", "answer", "label")


def samples_in(gathered: GatheredTraces) -> list[Sample]:
    """Return the samples among records. What is none is added to the problems.

    Args:
        gathered: The records.
    """
    samples = []
    for trace in gathered.traces:
        record = trace.record.load() if isinstance(trace.record, StoredRecord) else trace.record
        sample = sample_of(record, trace.place)
        if isinstance(sample, InputProblem):
            gathered.problems.append(sample)
        else:
            samples.append(sample)
    return samples


def all_samples(
    paths: Sequence[str],
    *,
    limit: int | None = None,
    shuffle: int | None = None,
    left_out: Set[Path] = frozenset(),
    max_bytes: int = LARGEST_INPUT,
) -> list[Sample]:
    """Read the samples of an evaluation, all of which must be readable and have a right answer.

    Args:
        paths: Files, folders and globs.
        limit: The most samples to take.
        shuffle: A seed for a random order.
        left_out: Files that are skipped inside folders.
        max_bytes: The maximum size of a file, in bytes.

    Raises:
        UsageError: A record cannot be read, is not a sample, or has no right answer.
    """
    with gather_traces(paths, limit=limit, shuffle=shuffle, left_out=left_out, max_bytes=max_bytes) as gathered:
        samples = samples_in(gathered)
        if len(gathered.problems) == 1:
            only = gathered.problems[0]
            raise UsageError(f"{only.place}: {only.reason}; every sample of an evaluation must be readable")
        if gathered.problems:
            raise UsageError(f"every sample of an evaluation must be readable{problem_lines(gathered.problems)}")
    for sample in samples:
        if sample.ground_truth is None:
            raise UsageError(f"{sample.id}: no right answer; put it into the field ground_truth or target")
    return samples


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
        return InputProblem(place, f"no question; put it into the field {' or '.join(_QUESTION)}")
    own = record.get("id")
    name = f"{place}:{own}" if isinstance(own, str | int) else place
    return Sample(question, context or "", _text(record, _GROUND_TRUTH), id=name)


def _text(record: Mapping[str, object], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = record.get(name)
        if value is not None and value != "":
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return None
