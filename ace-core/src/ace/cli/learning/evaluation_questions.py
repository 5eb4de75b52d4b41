"""The questions of an evaluation: samples with right answers, and the cases of recorded runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ace.cli.console import counted, note
from ace.cli.errors import UsageError
from ace.cli.inputs import RunFilter, gather_traces, problem_lines
from ace.cli.learning.sample_files import sample_of
from ace.environments import Sample
from ace.logs import Problem
from ace.logs.spool import StoredTrace

if TYPE_CHECKING:
    from ace.runners import RecordedTrace

__all__ = ["NO_CASES", "evaluation_questions", "standard_trace"]

NO_CASES = (
    "no one said which of their answers were wrong, or what is right; log corrections, feedback, scores or the right "
    "answers (the field ground_truth), or give more runs"
)
"""Why runs cannot be asked again, and what to do."""


def evaluation_questions(
    paths: Sequence[str],
    judged: Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]],
    *,
    limit: int | None = None,
    shuffle: int | None = None,
    wanted: RunFilter | None = None,
) -> tuple[list[Sample], Sequence[Problem]]:
    """Read the questions of an evaluation: samples with a right answer, and the cases of recorded runs.

    Among samples, each record must be readable and have a right answer. Runs without cases are skipped.

    Returns:
        The questions; and, where some of them are cases of runs, what could not be read.

    Args:
        paths: Files, folders and globs.
        judged: Returns standard traces with what persons said about the answers in them.
        limit: The most records to read.
        shuffle: A seed for a random order.
        wanted: Which runs are taken, and how they are read; by default all.

    Raises:
        UsageError: There is no question, or something that is neither a run nor a sample with a right answer.
    """
    questions: list[Sample] = []
    without = 0
    with gather_traces(paths, limit=limit, shuffle=shuffle, wanted=wanted) as gathered:
        problems = list(gathered.problems)
        traces = judged([standard_trace(trace) for trace in gathered.traces])
        for trace, recorded in zip(traces, gathered.traces, strict=True):
            found = _questions_of(trace, recorded.place)
            if isinstance(found, Problem):
                problems.append(found)
            elif found:
                questions += found
            else:
                without += 1
    has_cases = any(map(_is_case, questions))
    if len(problems) == 1 and not has_cases:
        raise UsageError(f"{problems[0]}; every sample of an evaluation must be readable")
    if problems and not has_cases:
        raise UsageError(f"every sample of an evaluation must be readable{problem_lines(problems)}")
    runs = counted(without, "run")
    if not questions:
        raise UsageError(f"nothing to ask: {runs} without a case: {NO_CASES}")
    if without:
        note(f"ace: skipped {runs} without a case, in which no one said what is right")
    if problems:
        note(f"ace: not all inputs can be used:{problem_lines(problems)}")
    return questions, problems


def _is_case(question: Sample) -> bool:
    from ace.evaluation import case_of

    return case_of(question) is not None


def _questions_of(trace: Mapping[str, Any], place: str) -> list[Sample] | Problem:
    """Return the questions of a record: a sample with a right answer, or the cases of a run, which may have none."""
    from ace.evaluation import case_questions

    sample = sample_of(trace, place)
    # Where someone has commented on an answer without a ground truth, the recorded answer is not known to be right.
    is_judged = bool(trace.get("corrections") or (trace.get("feedback") and not trace.get("ground_truth")))
    if not is_judged and isinstance(sample, Sample) and sample.ground_truth is not None:
        return [sample]
    if is_judged or trace.get("steps"):
        return case_questions(trace, place)
    if isinstance(sample, Problem):
        return sample
    return Problem(place, None, "no right answer; put it into the field ground_truth or target")


def standard_trace(trace: RecordedTrace) -> Mapping[str, Any]:
    """Return the standard trace of a run.

    Args:
        trace: What `gather_traces` found.
    """
    assert isinstance(trace.record, StoredTrace)
    return trace.record.load()
