"""Samples that failed, with what the model had answered."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from ace.pipeline import PipelineCancelled, SampleResult
from ace.protocols.errors import UnusableAnswerError
from ace.protocols.redaction import environment_secrets, redact
from ace.runners.recorded_trace import RecordedTrace

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import StepProtocol

__all__ = ["DrawnSample", "FailedSample", "FailureLog", "keys_of"]

logger = logging.getLogger(__name__)

_LONGEST_SAMPLE = 500
_SHORTEST_KEY = 8
"""What is shorter is no key, and would be found in ordinary words."""


@dataclass(frozen=True, slots=True)
class DrawnSample:
    """A sample that a run has begun with."""

    sample: object
    trace_id: str
    epoch: int
    index: int


@dataclass(frozen=True, slots=True)
class FailedSample:
    """A sample that failed, for inspection. Keys are hidden."""

    trace_id: str
    """The name of the sample or trace."""
    sample: str
    """Its question, or the beginning of the record."""
    epoch: int
    index: int
    """Its place in the epoch, from 1."""
    step: str
    """The step that failed."""
    error_type: str
    error: str
    role: str
    """The role whose model answer could not be used; empty if it was something else."""
    raw_answers: tuple[str, ...]
    """What the model answered, exactly, oldest first; empty if it was something else."""


@final
class FailureLog:
    """Keeps failed samples in memory and, where there is a file, as one JSON line each.

    Args:
        path: The file, to which lines are added; None keeps them in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.failed: list[FailedSample] = []
        self._lock = threading.Lock()

    def record(self, drawn: Iterable[tuple[DrawnSample, SampleResult[ACEStepContext]]], secrets: Sequence[str]) -> None:
        """Keep those of the samples that failed. A cancelled sample has not failed.

        Args:
            drawn: Samples with their results.
            secrets: Keys that must not show, beside those of the environment.

        Raises:
            OSError: The file cannot be written; the samples are kept in memory.
        """
        hidden = [*environment_secrets(), *secrets]
        failed = [
            _failed_sample(sample, result, result.error, hidden)
            for sample, result in drawn
            if result.error is not None and not isinstance(result.error, PipelineCancelled)
        ]
        if not failed:
            return
        for item in failed:
            logger.warning(
                "Sample %d of epoch %d (%s) failed in %s: %.500s",
                *(item.index, item.epoch, item.trace_id, item.step, f"{item.error_type}: {item.error}"),
            )
        with self._lock:
            self.failed += failed
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                lines = "".join(f"{json.dumps(asdict(item))}\n" for item in failed)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())


def keys_of(steps: Iterable[StepProtocol[ACEStepContext]]) -> list[str]:
    """Return the keys that the clients of the roles in these steps were given.

    Args:
        steps: The steps of a pipeline.
    """
    keys: list[str] = []
    for step in steps:
        for role in vars(step).values() if hasattr(step, "__dict__") else ():
            client = getattr(role, "llm", None)
            while client is not None:
                key = getattr(getattr(client, "config", None), "api_key", None)
                if isinstance(key, str) and len(key) >= _SHORTEST_KEY and key not in keys:
                    keys.append(key)
                client = getattr(client, "client", None)  # a client that wraps another one
    return keys


def _failed_sample(
    drawn: DrawnSample, result: SampleResult[ACEStepContext], error: BaseException, secrets: Sequence[str]
) -> FailedSample:
    unusable = _unusable_answer(error)
    sample = drawn.sample.record if isinstance(drawn.sample, RecordedTrace) else drawn.sample
    question = getattr(sample, "question", None)
    shown = question if isinstance(question, str) else _beginning(sample)
    return FailedSample(
        trace_id=redact(drawn.trace_id, secrets),
        sample=redact(shown, secrets),
        epoch=drawn.epoch,
        index=drawn.index,
        step=result.failed_at or "",
        error_type=type(error).__name__,
        error=redact(str(error), secrets),
        role="" if unusable is None else unusable.role,
        raw_answers=() if unusable is None else tuple(redact(text, secrets) for text in unusable.raw_answers),
    )


def _beginning(sample: object) -> str:
    """Return the first part of a record, as the reflector would see it: fields that hold keys are hidden."""
    from ace.implementations.trace_reading.plain import to_plain

    text = json.dumps(to_plain(sample), ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_SAMPLE else f"{text[:_LONGEST_SAMPLE]}..."


def _unusable_answer(error: BaseException) -> UnusableAnswerError | None:
    """Return the error that carries the model's answers, from the chain of causes."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, UnusableAnswerError):
            return found
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return None
