"""The parsed trace of a sample, which steps share so that it is parsed only once, unless a step replaces it.

`KnownStep` and `ReflectStep` store the parsed trace in the metadata of the sample. After the last step that needs it,
only the facts that later steps need are kept, because results contain the metadata, and a parsed trace may be large.
That step is `ReflectStep`, unless insights or artifacts are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ace.environments import says_only_the_truth
from ace.protocols.errors import attribute_of

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.roles.trace_reading import StandardTrace

__all__ = [
    "KnownOfTask",
    "known_of_task",
    "question_of",
    "read_trace_of",
    "with_trace_facts",
    "with_trace_read",
    "without_trace_read",
]

_READ: Final = "trace_read"


class KnownOfTask(NamedTuple):
    """What is known about the task from which operations were learned."""

    answers: Sequence[str] = ()
    """The right answers."""
    feedback: Sequence[str] = ()
    """The feedback on the agent's answers."""
    is_unverified: bool = False
    """Whether a trace says that its answer was not verified, and has no ground truth either."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read from a trace."""

    trace: object
    """The trace. What was read is not used if a step has replaced it."""
    standard: StandardTrace | None
    """The whole trace; None after the last step that needs it."""
    question: str
    known: KnownOfTask | None
    """None for a batch of traces, each of which has a task of its own."""


def read_trace_of(ctx: ACEStepContext) -> StandardTrace:
    """Return the trace of a sample as `read_trace` returns it, which an earlier step may have called.

    Args:
        ctx: The context of the sample.

    Raises:
        AmbiguousTraceError: See `read_trace`.
        TraceConversionError: See `read_trace`.
    """
    from ace.roles.trace_reading import read_trace  # rarely needed, and slow to import

    found = _found(ctx)
    return read_trace(ctx.trace) if found is None or found.standard is None else found.standard


def with_trace_read(ctx: ACEStepContext, read: StandardTrace) -> ACEStepContext:
    """Return the context with its trace as it was read, for the next step.

    Args:
        ctx: The context of the sample.
        read: Its trace, as `read_trace` returns it.
    """
    return ctx.replace(metadata={**ctx.metadata, _READ: _Read(ctx.trace, read, read["question"], None)})


def with_trace_facts(ctx: ACEStepContext, read: StandardTrace, *, keep_read: bool = False) -> ACEStepContext:
    """Return the context with what later steps need of its trace.

    Args:
        ctx: The context of the sample.
        read: Its trace, as `read_trace` returns it.
        keep_read: Whether to keep the rest of it too, until `without_trace_read`.
    """
    from ace.roles.trace_reading import traces_in_batch

    known = _known(ctx, [read]) if traces_in_batch(ctx.trace) is None else None
    kept = _Read(ctx.trace, read if keep_read else None, read["question"], known)
    return ctx.replace(metadata={**ctx.metadata, _READ: kept})


def without_trace_read(ctx: ACEStepContext) -> ACEStepContext:
    """Return the context without its trace as it was read, and with the facts that later steps need.

    Args:
        ctx: The context of the sample.
    """
    found = _found(ctx)
    if found is None or found.standard is None:
        return ctx
    return ctx.replace(metadata={**ctx.metadata, _READ: replace(found, standard=None)})


def question_of(ctx: ACEStepContext) -> str:
    """Return the question of the sample, else that of the trace; empty if neither has one.

    Args:
        ctx: The context of the sample.
    """
    question = attribute_of(ctx.sample, "question")
    if isinstance(question, str):
        return question
    found = _found(ctx)
    return read_trace_of(ctx)["question"] if found is None else found.question


def known_of_task(ctx: ACEStepContext) -> KnownOfTask:
    """Return the right answers in the sample and its trace, and the feedback that says more than those.

    Args:
        ctx: The context of the sample.
    """
    found = _found(ctx)
    if found is not None and found.known is not None:
        return found.known
    from ace.roles.trace_reading import read_batch, traces_in_batch

    batch = traces_in_batch(ctx.trace)
    return _known(ctx, [read_trace_of(ctx)] if batch is None else list(read_batch(batch)[0].values()))


def _found(ctx: ACEStepContext) -> _Read | None:
    found = ctx.metadata.get(_READ)
    return found if isinstance(found, _Read) and found.trace is ctx.trace else None


def _known(ctx: ACEStepContext, read: Sequence[StandardTrace]) -> KnownOfTask:
    found = [getattr(ctx.sample, "ground_truth", None), *(trace["ground_truth"] for trace in read)]
    answers = [answer for answer in found if isinstance(answer, str)]
    said = [trace["feedback"] or "" for trace in read]
    said += [correction["correction"] for trace in read for correction in trace["corrections"]]
    return KnownOfTask(
        answers,
        [text for text in said if not any(says_only_the_truth(text, answer) for answer in answers)],
        any(trace["rest"].get("verified") is False and not trace["ground_truth"] for trace in read),
    )
