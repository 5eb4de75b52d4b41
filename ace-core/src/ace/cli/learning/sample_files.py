"""Reads samples from files, in every format that runs are read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ace.cli.errors import UsageError
from ace.cli.inputs import GatheredTraces, RunFilter, gather_traces, problem_lines
from ace.environments import Sample
from ace.logs import Problem
from ace.logs.spool import StoredTrace

__all__ = ["all_samples", "sample_of", "samples_in"]


def samples_in(gathered: GatheredTraces) -> list[Sample]:
    """Return the samples among runs. What is none is added to the problems.

    Args:
        gathered: The runs.
    """
    samples = []
    for trace in gathered.traces:
        assert isinstance(trace.record, StoredTrace)
        sample = sample_of(trace.record.load(), trace.place)
        if isinstance(sample, Problem):
            gathered.problems.append(sample)
        else:
            samples.append(sample)
    return samples


def all_samples(
    paths: Sequence[str],
    *,
    limit: int | None = None,
    shuffle: int | None = None,
    wanted: RunFilter | None = None,
) -> list[Sample]:
    """Read the samples of an evaluation, all of which must be readable and have a right answer.

    Args:
        paths: Files, folders and globs.
        limit: The most samples to take.
        shuffle: A seed for a random order.
        wanted: Which runs are taken, and how they are read; by default all.

    Raises:
        UsageError: A record cannot be read, is not a sample, or has no right answer.
    """
    with gather_traces(paths, limit=limit, shuffle=shuffle, wanted=wanted) as gathered:
        samples = samples_in(gathered)
        if len(gathered.problems) == 1:
            raise UsageError(f"{gathered.problems[0]}; every sample of an evaluation must be readable")
        if gathered.problems:
            raise UsageError(f"every sample of an evaluation must be readable{problem_lines(gathered.problems)}")
    for sample in samples:
        if sample.ground_truth is None:
            raise UsageError(f"{sample.id}: no right answer; put it into the field ground_truth or target")
    return samples


def sample_of(trace: Mapping[str, Any], place: str) -> Sample | Problem:
    """Return the sample that a trace holds, or why it holds none.

    Args:
        trace: A standard trace; without a right answer, the recorded one is right.
        place: Where it was found; the name of the sample if it has no id of its own.

    Example:
        >>> sample_of({"question": "2+2?", "answer": "4"}, "a.jsonl#1")
        Sample(question='2+2?', context='', ground_truth='4', metadata={}, id='a.jsonl#1')
    """
    question, context = trace.get("question"), trace.get("context") or ""
    if not question:
        # Some data sets put the whole question into the context.
        question, context = context, ""
    if not question:
        return Problem(place, None, "no question; put it into the field question or task")
    truth = trace.get("ground_truth")
    if not truth and trace.get("steps"):
        return Problem(place, None, "not a sample: a run of an agent, and nothing says which answer is right")
    own = trace.get("trace_id")
    name = f"{place}:{own}" if own else place
    return Sample(question, context, truth or trace.get("answer") or None, id=name)
