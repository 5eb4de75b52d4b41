"""Samples that failed, with the answers of the model."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, final

from ace._internal.atomic_file import append_line
from ace.protocols.errors import LLMCallError, UnusableAnswerError, attribute_of
from ace.redaction import Redactor
from ace.runners.samples import DrawnSample, RecordedTrace

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult

__all__ = ["FailedSample", "FailureLog", "first_cause"]

logger = logging.getLogger(__name__)

E = TypeVar("E", bound=BaseException)

_LONGEST_SAMPLE = 500
_LONGEST_PROBLEM = 300


@dataclass(frozen=True, slots=True)
class FailedSample:
    """A sample that failed, for inspection. Secrets and personal data are redacted."""

    trace_id: str
    """The name of the sample or trace."""
    sample: str
    """Its question, or the beginning of the record."""
    epoch: int
    """The epoch, from 1."""
    index: int
    """Its position in the epoch, from 1."""
    step: str
    """The step that failed."""
    error_type: str
    """The class of the error."""
    error: str
    """The message of the error."""
    role: str
    """The role whose model gave no usable answer; empty if the sample failed for another reason."""
    raw_answers: tuple[str, ...]
    """The exact answers of the model, oldest first; empty if the sample failed for another reason."""

    @property
    def problem(self) -> str:
        """The step and the beginning of the message, in one line."""
        message = " ".join(self.error.split()) or self.error_type
        short = message if len(message) <= _LONGEST_PROBLEM else f"{message[:_LONGEST_PROBLEM]}..."
        return f"{self.step}: {short}" if self.step else short


@final
class FailureLog:
    """Keeps failed samples in memory and, if a file is given, as one JSON line each.

    Args:
        path: The file to which lines are appended; None keeps the samples only in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.failed: list[FailedSample] = []
        self._lock = threading.Lock()

    def add(
        self,
        drawn: DrawnSample,
        result: SampleResult[ACEStepContext],
        error: BaseException,
        redactor: Redactor,
        *,
        ids_only: bool = False,
    ) -> FailedSample:
        """Keep a failed sample, and return it. Its line is on the disk when this returns.

        Args:
            drawn: The sample.
            result: Its result.
            redactor: Redacts secrets and personal data.
            ids_only: Whether no text is kept that can quote the sample.

        Raises:
            OSError: The file cannot be written; the sample is kept in memory.
        """
        failed = _failed_sample(drawn, result, error, redactor)
        if ids_only:
            failed = replace(failed, sample="", error=_error_without_texts(error), raw_answers=())
        logger.warning(
            "Sample %d of epoch %d (%s) failed in %s: %.500s",
            *(failed.index, failed.epoch, failed.trace_id, failed.step, f"{failed.error_type}: {failed.error}"),
        )
        with self._lock:
            self.failed.append(failed)
            if self.path is not None:
                append_line(self.path, json.dumps(asdict(failed)))
        return failed


def _failed_sample(
    drawn: DrawnSample, result: SampleResult[ACEStepContext], error: BaseException, redactor: Redactor
) -> FailedSample:
    unusable = first_cause(error, UnusableAnswerError)
    sample = drawn.sample.record if isinstance(drawn.sample, RecordedTrace) else drawn.sample
    question = attribute_of(sample, "question")
    shown = question if isinstance(question, str) else _beginning(sample, redactor)
    return FailedSample(
        trace_id=redactor.redact_name(drawn.trace_id),
        sample=redactor.redact(shown),
        epoch=drawn.epoch,
        index=drawn.index,
        step=result.failed_at or "",
        error_type=type(error).__name__,
        error=redactor.redact(str(error)),
        role=_role_in(error),
        raw_answers=() if unusable is None else tuple(redactor.redact(text) for text in unusable.raw_answers),
    )


def _error_without_texts(error: BaseException) -> str:
    """Return a description of an error; its message is omitted, because it can quote the sample or an answer."""
    call = first_cause(error, LLMCallError)
    status = "" if call is None or call.status_code is None else f" with the status {call.status_code}"
    return f"{type(error).__name__}{status} (its message is not stored, because provenance is 'ids')"


def _role_in(error: BaseException) -> str:
    found = first_cause(error, UnusableAnswerError) or first_cause(error, LLMCallError)
    return "" if found is None else found.role


def _beginning(sample: object, redactor: Redactor) -> str:
    """Return the beginning of a record as the reflector would see it: fields that contain keys are hidden."""
    from ace.logs.plain import to_plain

    text = json.dumps(redactor.redact_value(to_plain(sample)), ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_SAMPLE else f"{text[:_LONGEST_SAMPLE]}..."


def first_cause(error: BaseException, kind: type[E]) -> E | None:
    """Return the first error of a class in the chain of causes of an error, starting with the error itself.

    Args:
        kind: The class.

    Example:
        >>> first_cause(ValueError("no"), KeyError) is None
        True
    """
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, kind):
            return found
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return None
