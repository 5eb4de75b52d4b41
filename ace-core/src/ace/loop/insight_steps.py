"""`InsightStep` and `InsightOutcomeStep`: learn only what enough tasks support, and record the outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ace._internal.arguments import checked_class, instance_of, one_of, shown
from ace._internal.json_fields import mapping_in, text_in
from ace.calls.model_calls import redactor_for
from ace.calls.sample_context import is_learned, needed, run_of, stop_if_cancelled
from ace.context import ACEStepContext
from ace.deduplication.wording import stated_values
from ace.loop.insights import Insight, InsightLog, confidence
from ace.loop.metadata import INSIGHTS
from ace.loop.outcomes import outcome_of_commit, outcome_of_sample
from ace.proof.trace_facts import is_known, names_in_batch, read_trace_of, without_trace_read
from ace.protocols.errors import encodable
from ace.protocols.observers import InsightsFound, emit, is_observed
from ace.retrieval import words
from ace.skill import PROVENANCES, Provenance
from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from ace.logs.trace import StandardTrace
    from ace.loop.outcomes import SampleOutcome
    from ace.outputs import ExtractedLearning, ReflectorOutput
    from ace.redaction import Redactor
    from ace.skillbook import Skillbook

__all__ = [
    "FoundInsights",
    "InsightOutcomeStep",
    "InsightStep",
    "found_insights",
    "has_only_pending_insights",
    "with_outcome",
]

_SUBMITTED: Final = "being learned"
"""The reason of an insight between the request for an update and its outcome."""
_ERROR_LINE: Final = re.compile(
    r"^(?:(?P<file>[^\s:][^:\n]*?)(?::\d+){0,2}: )?error: (?P<message>.+?)(?: \([^()\n]*\))?$", re.MULTILINE
)
_DELTA: Final = re.compile(r"\[Bullet #(?P<id>[^\]]+)\]")
_LONGEST_EVIDENCE: Final = 2000
_MOST_ERRORS: Final = 100
_SHORTEST_MESSAGE: Final = 8
"""In characters. A shorter message may be part of any text."""


@dataclass(frozen=True, slots=True)
class FoundInsights:
    """The insights of one sample."""

    task_id: str
    trace_id: str
    ready: Sequence[Insight] = ()
    """The insights that are learned now."""
    earlier: Sequence[tuple[str, Insight]] = ()
    """Insights of earlier traces with the same recommendation as one that is learned now, with the id of that one."""
    pending: Sequence[Insight] = ()
    """The insights that too few tasks support."""
    sources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The names of the earlier traces that support a learning, by its text."""


class _Error(NamedTuple):
    """An error that a command of the attempt reported."""

    file: str
    message: str
    place: str


def found_insights(ctx: ACEStepContext) -> FoundInsights | None:
    """Return the insights of a sample; None if `InsightStep` has not processed it.

    Args:
        ctx: The context of the sample.
    """
    found: FoundInsights | None = ctx.metadata.get(INSIGHTS)
    return found


def has_only_pending_insights(ctx: ACEStepContext) -> bool:
    """Return whether all insights of a sample stay pending, so that no update is requested.

    Args:
        ctx: The context of the sample.
    """
    found = found_insights(ctx)
    return found is not None and bool(found.pending) and not found.ready


@checked_class
class InsightStep:
    """Records the insights of each trace, and passes on only those with enough confidence.

    The confidence depends on how many different tasks support an insight, see `ace.loop.confidence`. Insights below
    `min_confidence` stay pending in the log, and are not passed to the skill manager. When another task supports the
    same insight, they count, and the skill gets all of these traces as its sources.

    An insight about an error with which the attempt failed is critical, and has the confidence of three tasks.

    Judgements of skills are not affected, because they are counted before this step. A reflection without learnings is
    passed on unchanged.

    Args:
        log: The log of insights.
        skillbook: The book that learns; the step runs in its lane.
        min_confidence: The minimum confidence of insights to learn, from 0 to 1.
        provenance: With `ids`, the log contains the recommendations, but no text about the trace.
        client: A client, whose keys are redacted in the log.

    Raises:
        ValueError: `min_confidence` is not from 0 to 1, or `provenance` is unknown.

    Example:
        >>> from ace import Skillbook
        >>> InsightStep(InsightLog(), Skillbook(), min_confidence=0.8).lane
        'skillbook'
    """

    requires = frozenset({"reflection"})
    provides = frozenset({"reflection"})
    lane = "skillbook"
    max_workers = 1

    def __init__(
        self,
        log: InsightLog,
        skillbook: Skillbook,
        *,
        min_confidence: float = 0.0,
        provenance: Provenance = "full",
        client: object = None,
    ) -> None:
        instance_of("log", log, InsightLog)
        one_of("provenance", provenance, PROVENANCES)
        self.log = log
        self.skillbook = self.lane_key = skillbook
        self.min_confidence = checked_confidence(min_confidence)
        self.provenance: Provenance = provenance
        self.client = client

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Record the insights, and remove those that stay pending from the reflection.

        Raises:
            OSError: The log cannot be written.
        """
        if is_learned(ctx) or is_known(ctx):
            return ctx
        stop_if_cancelled()
        reflection = needed(ctx.reflection, "reflection", self)
        needed(ctx.trace, "trace", self)
        read = read_trace_of(ctx)
        redactor = redactor_for(self.client)
        task_id, trace_id = _names(ctx, read, redactor)
        errors = list(_errors_in(read))
        ready: list[Insight] = []
        pending: list[Insight] = []
        supporting: list[tuple[str, Insight]] = []
        kept: list[ExtractedLearning] = []
        sources: dict[str, Sequence[str]] = {}
        group = names_in_batch(ctx, redactor)
        has_texts = self.provenance == "full"
        pattern = _hidden(reflection.error_identification or reflection.key_insight, redactor) if has_texts else ""
        for learning in _learnings(reflection):
            recommendation = _hidden(learning.learning, redactor)
            id = Insight.id_of(task_id, trace_id, recommendation)
            same = self.log.same_pattern(recommendation)
            earlier = [other for other in same if other.id != id]
            named = [error for error in errors if _names_error(learning, error)]
            # A learning of a group of traces names those that show it. Other names would be a claim of the model.
            own = [redactor.redact_name(group[name]) for name in learning.trace_ids if name in group] or [task_id]
            tasks = tuple(dict.fromkeys([*(task for other in earlier for task in other.tasks), *own]))
            reached = confidence(len(tasks), critical=read["success"] is False and bool(named))
            is_ready = reached >= self.min_confidence
            known = next((other for other in reversed(same) if other.delta), None) if is_ready else None
            insight = Insight(
                id=id,
                task_id=task_id,
                trace_id=trace_id,
                recommendation=recommendation,
                pattern=pattern,
                evidence=_evidence_of(learning, named, redactor) if has_texts else (),
                confidence=reached,
                tasks=tasks,
                section="" if known is None else known.section,
                delta=None if known is None else known.delta,
                reason=_SUBMITTED if is_ready else _waiting_for(tasks),
            )
            if not is_ready:
                pending.append(insight)
                continue
            ready.append(insight)
            supporting += [(id, other) for other in earlier]
            sources[learning.learning] = [_trace_name(other) for other in earlier if other.trace_id != trace_id]
            kept.append(learning)
        recorded = self.log.record([*ready, *pending], is_durable=False)
        found = FoundInsights(task_id, trace_id, tuple(recorded[: len(ready)]), supporting, pending, sources)
        if is_observed():
            self._tell(ctx, found, read, errors, redactor)
        ctx = ctx.replace(metadata={**ctx.metadata, INSIGHTS: found})
        if not pending:
            return ctx  # the same reflection, for which a proposal may have been prefetched
        return ctx.replace(reflection=_reduced(reflection, kept))

    def _tell(
        self,
        ctx: ACEStepContext,
        found: FoundInsights,
        read: StandardTrace,
        errors: Sequence[_Error],
        redactor: Redactor,
    ) -> None:
        emit(
            InsightsFound(
                run_id=run_of(ctx),
                trace_id=str(ctx.metadata.get("trace_id", "")),
                task_id=found.task_id,
                description=redactor.redact(read["question"]) if self.provenance == "full" else "",
                success=read["success"],
                consulted=len(read["skill_ids"]),
                files=len({error.file for error in errors if error.file}),
                min_confidence=self.min_confidence,
                ready=len(found.ready),
                pending=len(found.pending),
                pending_ids=tuple(insight.id for insight in found.pending),
            )
        )


@checked_class
class InsightOutcomeStep:
    """Records the status of the insights of a trace in the log, after its operations were applied.

    With the first trace, it also records the status for samples whose process was killed after the commit.

    Args:
        log: The log of insights.
        skillbook: The book that learns.
    """

    requires = frozenset({"skill_manager_output"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"
    max_workers = 1

    def __init__(self, log: InsightLog, skillbook: Skillbook) -> None:
        instance_of("log", log, InsightLog)
        self.log = log
        self.skillbook = self.lane_key = skillbook
        self._is_complete = False
        self._accepted: dict[str, Insight] = {}

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Record the status of the insights, and return the context.

        Raises:
            OSError: The log cannot be written.
        """
        found = found_insights(ctx)
        if found is not None and found.ready and (outcome := outcome_of_sample(self.skillbook, ctx)) is not None:
            ended = with_outcome(found.ready, found.earlier, outcome, self.skillbook)
            recorded = self.log.record(ended, is_durable=False)
            self._accepted |= {
                insight.id: insight for insight in recorded if insight.delta and insight.status == "accepted"
            }
        if not self._is_complete:
            self._is_complete = True
            self.complete()
        return without_trace_read(ctx)

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Record which of the insights that this step has recorded as accepted were rolled back by a validation.

        Args:
            last_index: Not used.
            interrupted: Not used.

        Raises:
            OSError: The log cannot be written.
        """
        gone = [insight for insight in self._accepted.values() if self.skillbook.get_skill(_skill_id(insight)) is None]
        for insight in gone:
            del self._accepted[insight.id]
        reason = "its skill was rolled back"
        self.log.record(replace(insight, status="refused", reason=reason, delta=None, section="") for insight in gone)

    def complete(self) -> int:
        """Record the status of insights whose process was killed between the commit and the record.

        Returns:
            The number of these insights.

        Raises:
            OSError: The log cannot be read or written.
        """
        open_ones: dict[tuple[str, str], list[Insight]] = {}
        for insight in self.log.insights(status="pending"):
            if insight.reason == _SUBMITTED:
                open_ones.setdefault((insight.task_id, insight.trace_id), []).append(insight)
        if not open_ones or self.skillbook.store is None:
            return 0
        completed: list[Insight] = []
        for key, version in _committed_samples(self.skillbook):
            insights = next((open_ones.pop(names) for names in _possible_names(key.sample) if names in open_ones), None)
            outcome = None if insights is None else outcome_of_commit(self.skillbook, version)
            if insights is not None and outcome is not None:
                completed += with_outcome(insights, (), outcome, self.skillbook)
        self.log.record(completed)
        return len(completed)


def checked_confidence(value: object) -> float:
    """Return the argument `min_confidence` if it is valid.

    Args:
        value: The argument `min_confidence`.

    Raises:
        ValueError: It is not a number from 0 to 1.

    Example:
        >>> checked_confidence(0.8)
        0.8
        >>> checked_confidence(80)
        Traceback (most recent call last):
        ...
        ValueError: min_confidence must be from 0 to 1, got 80
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise ValueError(f"min_confidence must be from 0 to 1, got {shown(value)}")


def _names(ctx: ACEStepContext, read: StandardTrace, redactor: Redactor) -> tuple[str, str]:
    """Return the task and the name of a trace. A trace that is not an attempt at a task counts as a separate task."""
    metadata = mapping_in(read["rest"], "metadata")
    task_id, trace_id = text_in(metadata, "task_id"), text_in(metadata, "execution_trace_id")
    if task_id and trace_id:
        return task_id, trace_id
    place = redactor.redact_name(str(ctx.metadata.get("place") or ctx.metadata.get("trace_id") or "trace"))
    return task_id or place, redactor.redact_name(str(ctx.metadata.get("trace_id") or place))


def _trace_name(insight: Insight) -> str:
    """Return the name of an earlier trace, for the sources of a skill."""
    is_task = not insight.trace_id.endswith(insight.task_id)
    return f"{insight.task_id}/{insight.trace_id}" if is_task else insight.trace_id


def _possible_names(sample: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of task and trace that the insights of a sample in a store may have."""
    place = sample.partition("@")[2] or sample
    task, _, trace = place.partition("/")
    yield task, trace
    yield place, sample
    yield sample, sample


def _committed_samples(skillbook: Skillbook) -> Iterator[tuple[SampleKey, int]]:
    """Yield the samples of all runs that were committed, and their versions."""
    store = skillbook.store
    assert store is not None
    for run in store.progress(""):  # the run whose samples are the names of all runs
        for row in store.progress(run.key.sample):
            if row.version is not None:
                yield row.key, row.version


def _learnings(reflection: ReflectorOutput) -> list[ExtractedLearning]:
    """Return the learnings; of a reflection without any, the key insight."""
    from ace.outputs import ExtractedLearning

    found = [learning for learning in reflection.extracted_learnings if learning.learning.strip()]
    if found or not reflection.key_insight.strip():
        return found
    return [ExtractedLearning(learning=reflection.key_insight, evidence=reflection.error_identification)]


def _reduced(reflection: ReflectorOutput, kept: Sequence[ExtractedLearning]) -> ReflectorOutput:
    """Return the reflection with these learnings only, without the texts that may contain what is pending."""
    changed: dict[str, object] = {
        "extracted_learnings": list(kept),
        "key_insight": kept[0].learning if kept else "",
        "correct_approach": "\n".join(learning.learning for learning in kept),
    }
    return reflection.model_copy(update=changed)


def _errors_in(read: StandardTrace) -> Iterator[_Error]:
    """Yield the errors of failed commands, at most the first 100."""
    count = 0
    for step in read["steps"]:
        if not step["is_error"]:
            continue
        for found in _ERROR_LINE.finditer(step["content"]):
            count += 1
            if count > _MOST_ERRORS:
                return
            message = found["message"].strip()
            place = f"step {step['place']}" if step["place"] else step["name"]
            yield _Error(found["file"] or "", message, f"{place}: {found[0].strip()}")


def _names_error(learning: ExtractedLearning, error: _Error) -> bool:
    """Return whether the evidence of a learning names an error: its file, its message, or a code in the message."""
    evidence = learning.evidence.casefold()
    name = error.file.replace("\\", "/").rpartition("/")[2].casefold()
    if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", evidence):
        return True
    if len(error.message) >= _SHORTEST_MESSAGE and error.message.casefold() in evidence:
        return True
    codes = {value.casefold() for value in stated_values(error.message) if any(map(str.isdigit, value))}
    return any(re.search(rf"(?<!\w){re.escape(code)}(?!\w)", evidence) for code in codes if len(code) > 2)


def _evidence_of(learning: ExtractedLearning, errors: Sequence[_Error], redactor: Redactor) -> tuple[str, ...]:
    """Return where in the trace a learning was observed, including the places of the errors that it names."""
    said = [learning.evidence] if learning.evidence else []
    return tuple(_hidden(text, redactor) for text in (*said, *(error.place for error in errors)))


def _hidden(text: str, redactor: Redactor) -> str:
    return encodable(redactor.redact(text[:_LONGEST_EVIDENCE]))


def _waiting_for(tasks: Sequence[str]) -> str:
    shown_by = "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
    return f"shown by {shown_by} so far"


def with_outcome(
    ready: Sequence[Insight], earlier: Sequence[tuple[str, Insight]], outcome: SampleOutcome, skillbook: Skillbook
) -> Iterator[Insight]:
    """Yield the insights of a sample with their new status.

    Args:
        ready: The insights that were learned.
        earlier: Those of other traces with the id of the learned insight that they support, whose status they share.
        outcome: The outcomes of the operations of the sample.
        skillbook: The skillbook of the run.
    """
    texts = [insight.recommendation for insight in ready]
    own = {insight.id: _with_fate(insight, texts, outcome, skillbook) for insight in ready}
    yield from own.values()
    for id, insight in earlier:
        same = own[id]
        if insight.status != "accepted":
            yield replace(insight, status=same.status, reason=same.reason, delta=same.delta, section=same.section)


def _with_fate(insight: Insight, texts: Sequence[str], outcome: SampleOutcome, skillbook: Skillbook) -> Insight:
    """Return an insight with its new status."""
    for change in outcome.applied:
        if change.content and _nearest(change.content, texts) == insight.recommendation:
            delta = f"[Bullet #{change.skill_id}] {change.content}"
            return replace(insight, status="accepted", reason="", delta=delta, section=change.section)
    if _has_skill(insight, skillbook):
        return replace(insight, status="accepted", reason="it was known already")
    insight = replace(insight, delta=None, section="")
    for omitted in outcome.omitted:
        if omitted.content and _nearest(omitted.content, texts) == insight.recommendation:
            return replace(insight, status="refused", reason=omitted.reason)
    removed = [change.skill_id for change in outcome.applied if not change.content]
    if removed:
        return replace(insight, status="accepted", reason=f"removed {', '.join(removed)}")
    reasons = [omitted.reason for omitted in outcome.omitted if omitted.kind != "TAG" and not omitted.content]
    return replace(insight, status="refused", reason=reasons[0] if reasons else "no change was proposed for it")


def _has_skill(insight: Insight, skillbook: Skillbook) -> bool:
    """Return whether the skill learned from an insight is still in the book."""
    skill = skillbook.get_skill(_skill_id(insight))
    return skill is not None and skill.is_active


def _skill_id(insight: Insight) -> str:
    found = _DELTA.match(insight.delta or "")
    return "" if found is None else found["id"]


def _nearest(content: str, texts: Sequence[str]) -> str:
    """Return the text that shares the most words with a content."""
    if len(texts) == 1:
        return texts[0]
    wanted = set(words(content))
    return max(texts, key=lambda text: len(wanted & set(words(text))), default="")
