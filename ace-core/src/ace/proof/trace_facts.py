"""What steps share about the trace of a sample: its parsed form, its cases, and which of them the book answers.

A trace is parsed only once, unless a step replaces it.

`KnownStep` and `ReflectStep` store the parsed trace in the metadata of the sample. After the last step that needs it,
only the facts that later steps need are kept, because results contain the metadata, and a parsed trace may be large.
That step is `ReflectStep`, unless insights or artifacts are written.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ace.cases import cases_of, deciding_values, judged_trace
from ace.cases.values import content_words, keeps, tokens
from ace.environments import says_only_the_truth
from ace.protocols.errors import attribute_of, encodable
from ace.skill import Evidence, Skill, SkillCase

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.logs.trace import StandardTrace
    from ace.outputs import Judgement
    from ace.redaction import Redactor

__all__ = [
    "KnownOfTask",
    "holds_values",
    "is_known",
    "known_cases",
    "known_of_task",
    "names_in_batch",
    "open_cases",
    "question_of",
    "read_trace_of",
    "redacted_case",
    "sample_cases",
    "secrets_of",
    "traces_of",
    "values_to_hold",
    "was_corrected",
    "with_cases",
    "with_judgements",
    "with_trace_facts",
    "with_trace_read",
    "without_trace_read",
]

logger = logging.getLogger(__name__)

_READ: Final = "trace_read"


class KnownOfTask(NamedTuple):
    """What is known about the task from which operations were learned."""

    answers: Sequence[str] = ()
    """The right answers."""
    feedback: Sequence[str] = ()
    """The feedback on the agent's answers."""
    is_unverified: bool = False
    """Whether a trace says that its answer was not verified, and has no ground truth either."""
    evidence: Mapping[str, Evidence] = MappingProxyType({})
    """What shows that a lesson is right, by the name of the trace in a batch, or the empty name for a single trace."""


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
    from ace.logs.trace import read_trace  # rarely needed, and slow to import

    found = _found(ctx)
    return read_trace(ctx.trace) if found is None or found.standard is None else found.standard


def secrets_of(read: StandardTrace, allow: Collection[str]) -> tuple[str, ...]:
    """Return the secrets in a trace, which are hidden wherever they are repeated, also in what is shortened.

    Args:
        read: The trace, as `read_trace` returns it.
        allow: The classes of sensitive text that are not redacted.
    """
    from ace.redaction import Redactor  # slow to import

    return tuple(Redactor(allow=allow).secrets_in(read))


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
    from ace.logs.trace import traces_in_batch

    known = _known(ctx, {"": read}) if traces_in_batch(ctx.trace) is None else None
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


def names_in_batch(ctx: ACEStepContext, redactor: Redactor) -> dict[str, str]:
    """Return the ids of the traces in a batch, by the names that the reflector knows; empty for a single trace.

    Args:
        ctx: The context of the sample.
        redactor: The redactor of the prompt, which also redacts names.
    """
    from ace.logs.trace import shown_names, traces_in_batch

    batch = traces_in_batch(ctx.trace)
    if batch is None:
        return {}
    ids: Mapping[str, str] = ctx.metadata.get("trace_ids", {})
    return {shown: ids.get(name, name) for shown, name in shown_names(batch, redactor).items()}


def traces_of(ctx: ACEStepContext, read: StandardTrace) -> Mapping[str, tuple[object, StandardTrace]]:
    """Return the traces of a sample by their ids, each as it is and as it was read; those of a group that can be read.

    Args:
        ctx: The context of the sample.
        read: Its trace, as `read_trace` returns it.
    """
    from ace.logs.trace import read_batch, traces_in_batch

    batch = traces_in_batch(ctx.trace)
    if batch is None:
        return {str(ctx.metadata.get("trace_id", "")): (ctx.trace, read)}
    ids: Mapping[str, str] = ctx.metadata.get("trace_ids", {})
    return {ids.get(name, name): (batch[name], item) for name, item in read_batch(batch)[0].items()}


def known_of_task(ctx: ACEStepContext) -> KnownOfTask:
    """Return the right answers in the sample and its trace, and the feedback that says more than those.

    Args:
        ctx: The context of the sample.
    """
    found = _found(ctx)
    if found is not None and found.known is not None:
        return found.known
    from ace.logs.trace import read_batch, traces_in_batch

    batch = traces_in_batch(ctx.trace)
    return _known(ctx, {"": read_trace_of(ctx)} if batch is None else read_batch(batch)[0])


def _found(ctx: ACEStepContext) -> _Read | None:
    found = ctx.metadata.get(_READ)
    return found if isinstance(found, _Read) and found.trace is ctx.trace else None


def _known(ctx: ACEStepContext, by_name: Mapping[str, StandardTrace]) -> KnownOfTask:
    read = list(by_name.values())
    truth = getattr(ctx.sample, "ground_truth", None)
    evidence: dict[str, Evidence] = {
        name: "truth" if isinstance(truth, str) and truth.strip() else _evidence_in(trace)
        for name, trace in by_name.items()
    }
    found = [truth, *(trace["ground_truth"] for trace in read)]
    answers = [answer for answer in found if isinstance(answer, str)]
    said = [trace["feedback"] or "" for trace in read]
    said += [correction["correction"] for trace in read for correction in trace["corrections"]]
    return KnownOfTask(
        answers,
        [text for text in said if not any(says_only_the_truth(text, answer) for answer in answers)],
        any(trace["rest"].get("verified") is False and not trace["ground_truth"] for trace in read),
        evidence,
    )


def _evidence_in(trace: StandardTrace) -> Evidence:
    """Return what the structure of a trace shows, whatever a model says about it.

    A run that ended without an error was not judged. The feedback of a run with tools may be the errors of the tools,
    and that of an integration what the user said next, so only the corrections in it count.
    """
    metadata = trace["rest"].get("metadata")
    metrics = trace["rest"].get("metrics")
    was_scored = isinstance(metrics, Mapping) and not {"correct", "score"}.isdisjoint(metrics)
    if trace["ground_truth"] or trace["check"]:
        return "truth"
    if trace["corrections"]:
        return "person"
    if trace["rest"].get("verified") is False:
        return "none"
    if was_scored:
        return "truth"
    if trace["success"] is False:
        return "failure"
    is_recorded = isinstance(metadata, Mapping) and "integration" in metadata
    has_tools = any(step["kind"] == "call" for step in trace["steps"])
    return "person" if trace["feedback"] and not has_tools and not is_recorded else "none"


_LEAST_WORDS = 3
"""Words of a correction, beyond function words, with which it says more than that something was wrong."""


def with_cases(
    ctx: ACEStepContext,
    traces: Mapping[str, tuple[object, StandardTrace]],
    redactor: Redactor,
    *,
    can_be_asked_again: bool = False,
) -> ACEStepContext:
    """Return the context with the cases of its traces in `metadata["cases"]`, beside those that it already has.

    They have no time yet: the skillbook sets it when it is written. Personal data and keys are redacted in them; a case
    whose answer would be redacted is dropped.

    Args:
        ctx: The context.
        traces: Its traces, see `traces_of`.
        redactor: Finds personal data and keys.
        can_be_asked_again: Whether the agent of the trace also proves what it teaches; see `ace.cases.cases_of`.
    """
    found = (
        redacted_case(_replaced(case, trace_id=trace_id), redactor)
        for trace_id, (trace, read) in traces.items()
        for case in _cases(trace, read, can_be_asked_again)
    )
    placed = [*sample_cases(ctx), *(case for case in found if case is not None)]
    cases = tuple({case.id: case for case in placed}.values())
    return ctx.replace(metadata={**ctx.metadata, "cases": cases})


def with_judgements(
    ctx: ACEStepContext,
    read: StandardTrace,
    judgements: Sequence[Judgement],
    redactor: Redactor,
    *,
    keep_read: bool = False,
) -> ACEStepContext:
    """Return the context with the cases of the judgements that the reflector named.

    Args:
        ctx: The context.
        read: Its trace, as `read_trace` returns it.
        judgements: What the reflector named.
        redactor: Finds personal data and keys.
        keep_read: As for `with_trace_facts`.
    """
    judged = judged_trace(read, judgements, redactor)
    if judged["corrections"] == read["corrections"]:
        return ctx
    ctx = with_trace_facts(ctx, judged, keep_read=keep_read)
    return with_cases(ctx, traces_of(ctx, judged), redactor)


def redacted_case(case: SkillCase, redactor: Redactor) -> SkillCase | None:
    """Return a case with all sensitive text redacted.

    A check that looks for sensitive text could no longer be passed, so such a case is dropped, which is logged.

    Args:
        redactor: Finds personal data and keys.

    Returns:
        The case, with a new id if its question or context has changed. None if it is dropped.
    """

    def hidden(text: str) -> str:
        return encodable(redactor.redact(text))

    trace_id = encodable(redactor.redact_name(case.trace_id))
    if hidden(case.check.value) != case.check.value:
        logger.warning(
            "A case of %s is dropped: its check asks for a value that is redacted, so it can prove nothing",
            trace_id or "a trace",
        )
        return None
    question, context = hidden(case.question), hidden(case.context)
    is_same = (question, context) == (case.question, case.context)
    return _replaced(
        case,
        id=case.id if is_same else SkillCase.make(question, case.check, context=context).id,
        question=question,
        context=context,
        wrong=hidden(case.wrong),
        correction=hidden(case.correction),
        expected=hidden(case.expected),
        trace_id=trace_id,
    )


def sample_cases(ctx: ACEStepContext) -> tuple[SkillCase, ...]:
    """Return the cases of a sample."""
    cases: tuple[SkillCase, ...] = ctx.metadata.get("cases", ())
    return cases


def known_cases(ctx: ACEStepContext) -> Mapping[str, str]:
    """Return the ids of the skills that know an answer, by the ids of the cases that the skillbook already answers."""
    known: Mapping[str, str] = ctx.metadata.get("known_cases", {})
    return known


def open_cases(ctx: ACEStepContext) -> tuple[SkillCase, ...]:
    """Return the cases of a sample that the skillbook does not answer yet."""
    known = known_cases(ctx)
    return tuple(case for case in sample_cases(ctx) if case.id not in known)


def is_known(ctx: ACEStepContext) -> bool:
    """Return whether the skillbook answers all cases of the sample and each of its traces has one.

    Then it teaches nothing new.
    """
    cases = sample_cases(ctx)
    if not cases or open_cases(ctx):
        return False
    from ace.logs.trace import traces_in_batch

    batch = traces_in_batch(ctx.trace)
    return batch is None or len({case.trace_id for case in cases}) == len(batch)


def was_corrected(case: SkillCase) -> bool:
    """Return whether a person or the error of a tool said what was wrong; that of an environment is not a rule."""
    if case.check.kind == "environment" or not case.correction.strip():
        return False
    return bool(deciding_values(case)) or len(content_words(case.correction)) >= _LEAST_WORDS


def values_to_hold(case: SkillCase) -> tuple[str, ...]:
    """Return the values that a skill must contain to know the answer to a case.

    They are the deciding values of the correction or, without a correction, the answer itself.
    """
    values = deciding_values(case) if was_corrected(case) else ()
    if values:
        return values
    if case.check.kind in ("exact", "contains", "numeric", "any_of"):
        return tuple(line for line in case.check.value.splitlines() if line.strip())
    return tuple(tokens(case.expected))


def holds_values(skill: Skill, values: Sequence[str]) -> bool:
    """Return whether a skill contains all of these values; False if there are none."""
    return bool(values) and all(keeps(skill.content, value) for value in values)


def _cases(trace: object, read: StandardTrace, can_be_asked_again: bool) -> list[SkillCase]:
    spoken = {correction["correction"] for correction in read["corrections"] if correction["place"] != "feedback"}
    judged = isinstance(trace, Mapping) and (trace.get("metrics") or trace.get("check"))
    return [
        # The feedback of an environment on one answer is not a correction that a rule could repeat.
        _replaced(case, correction="")
        if case.check.kind not in ("environment", "call")
        and case.correction not in spoken
        and (judged or says_only_the_truth(case.correction, case.expected))
        else case
        for case in cases_of(read, can_be_asked_again=can_be_asked_again)
    ]


def _replaced(case: SkillCase, **changes: Any) -> SkillCase:
    return SkillCase(**{**case.__dict__, **changes})
