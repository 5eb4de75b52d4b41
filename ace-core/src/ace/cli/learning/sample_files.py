"""Reads samples from files."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

from ace.cli.errors import UsageError
from ace.cli.inputs import LARGEST_INPUT, GatheredTraces, InputProblem, StoredRecord, gather_traces
from ace.cli.learning.samples import sample_of

if TYPE_CHECKING:
    from ace.environments import Sample

__all__ = ["all_samples", "samples_in"]


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
        max_bytes: The size of the largest file that is read.

    Raises:
        UsageError: A record cannot be read, is not a sample, or has no right answer.
    """
    with gather_traces(paths, limit=limit, shuffle=shuffle, left_out=left_out, max_bytes=max_bytes) as gathered:
        samples = samples_in(gathered)
        if gathered.problems:
            first = gathered.problems[0]
            raise UsageError(f"{first.place}: {first.reason}; every sample of an evaluation must be readable")
    for sample in samples:
        if sample.ground_truth is None:
            raise UsageError(f"{sample.id}: there is no right answer; it belongs in the field ground_truth or target")
    return samples
