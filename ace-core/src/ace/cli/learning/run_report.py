"""The report of a run: what is counted while it runs, its tables and its JSON, and the file of `--results`."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ace._internal.atomic_file import replace_file
from ace.calls.secrets import redact
from ace.cli.console import JSON_SCHEMA, counted, print_table, print_text, visible
from ace.cli.settings import SETTINGS, Settings, shown_setting
from ace.cli.skillbooks.described_history import place_of
from ace.pipeline import PipelineCancelled
from ace.proof import PROVE_ROLE
from ace.protocols.observers import (
    AnswerEvaluated,
    BatchJudged,
    Event,
    ModelCalled,
    SampleEnded,
    SkillProven,
    SkillsChanged,
    TraceShortened,
)

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.logs import Problem
    from ace.pipeline import SampleResult
    from ace.runners import FailedSample
    from ace.skill import Skill
    from ace.skillbook import Skillbook

__all__ = [
    "Failure",
    "GateCounts",
    "LeftOut",
    "ModelUse",
    "NewSkill",
    "ProofCounts",
    "RunCounts",
    "RunReport",
    "SkillCounts",
    "epochs_of",
    "print_report",
    "processed_by_epoch",
    "report_as_json",
    "write_results",
]

_LONGEST_REASON = 400

_MOST_FAILURES_SHOWN = 20
_WANTED = {
    "ADD": "a new skill",
    "UPDATE": "a new text for a skill",
    "TAG": "a judgement of a skill",
    "REMOVE": "the removal of a skill",
    "MERGE": "a merge of skills",
    "DELETE": "the removal of a skill",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCounts:
    """What was done to the skillbook."""

    added: int
    pending: int = 0
    """Skills that the run added without showing them to agents; `ace review` lists them."""
    updated: int
    tagged: int
    merged: int
    removed: int
    skipped: int
    total: int

    @property
    def are_changed(self) -> bool:
        """Whether a skill was added, changed, judged or removed."""
        return bool(self.added or self.pending or self.updated or self.tagged or self.merged or self.removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What the model was asked, and what that cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced_calls: int = 0
    recorded_calls: int = 0
    cached_input_tokens: int = 0
    """The part of `input_tokens` that the providers had in their caches."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that the providers wrote to their caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofCounts:
    """What the proofs of skills have shown, and what they cost. Their calls are part of all calls of the run."""

    proven: int = 0
    """Skills, old and new, that answer the case of an input."""
    rewritten: int = 0
    """How many of these needed another text."""
    failing: int = 0
    """Skills whose case fails with every text, and which are pending or were kept nevertheless."""
    rejected: int = 0
    """Skills that were dropped: their case failed, or they broke another one."""
    not_judged: int = 0
    """Skills whose case could not be judged."""
    use: ModelUse = ModelUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCounts:
    """How often the gate has accepted the changes from an input, and how often it has refused them."""

    accepted: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A trace that was not learned from."""

    place: str
    reason: str
    stage: str
    """`input` if it could not be read, else the step that failed."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A change that a model requested and that was rejected."""

    operation: str
    """Such as `ADD` or `TAG`."""
    skill: str
    """The id of the skill that it is about; empty where the model named none."""
    reason: str
    trace: str


@dataclass(frozen=True, slots=True)
class NewSkill:
    """A skill that this run added, with the traces that it came from."""

    id: str
    section: str
    content: str
    traces: tuple[str, ...]
    proof: str = "unproven"
    """`proven`, `unproven` or `failing`."""
    pending_because: str = ""
    """Why agents are not shown it; empty if they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The report at the end of a run."""

    read: int
    """Traces that were found."""
    learned: int
    """How often a trace was learned from; in several epochs more than there are traces."""
    already_learned: int
    """How many of them an earlier run had learned."""
    not_begun: int
    """How many were not started or not finished, because the run was stopped."""
    failures: Sequence[Failure]
    """What was not learned from: what could not be read first, then what failed in the run."""
    skills: SkillCounts
    new_skills: Sequence[NewSkill]
    """Those that agents are shown."""
    pending_skills: Sequence[NewSkill]
    left_out: Sequence[LeftOut]
    use: ModelUse
    proofs: ProofCounts = ProofCounts()
    gate: GateCounts = GateCounts()
    shortened: Mapping[str, int] = field(default_factory=dict)
    """How many characters of a trace the model was not shown, by trace."""
    judged_by: Mapping[str, int] = field(default_factory=dict)
    """How many answers were judged, by the name of the environment that judged them."""

    @property
    def unreadable(self) -> int:
        """How many of the failures could not even be read."""
        return sum(failure.stage == "input" for failure in self.failures)


@dataclass
class RunCounts:
    """Counts the events of a run; it is an observer."""

    learned: int = 0
    already_learned: int = 0
    not_finished: int = 0
    use: ModelUse = field(default_factory=ModelUse)
    """What the model was asked."""
    _proofs: ProofCounts = field(default_factory=ProofCounts)
    _gate: GateCounts = field(default_factory=GateCounts)
    _changes: Counter[str] = field(default_factory=Counter)
    _added: dict[str, None] = field(default_factory=dict)
    _judged_by: Counter[str] = field(default_factory=Counter)
    _shortened: dict[str, int] = field(default_factory=dict)
    _left_out: list[LeftOut] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        with self._lock:
            if isinstance(event, SampleEnded):
                self._count_sample(event)
            elif isinstance(event, SkillsChanged):
                self._count_changes(event)
            elif isinstance(event, SkillProven):
                self._count_proof(event)
            elif isinstance(event, BatchJudged):
                self._count_verdict(event)
            elif isinstance(event, TraceShortened):
                self._shortened[place_of(event.trace_id)] = event.cut_characters
            elif isinstance(event, AnswerEvaluated):
                self._judged_by[event.environment] += bool(event.metrics)
            elif isinstance(event, ModelCalled):
                self.use = _counted(self.use, event)
                if event.role == PROVE_ROLE:
                    self._proofs = replace(self._proofs, use=_counted(self._proofs.use, event))

    def report(
        self, book: Skillbook, *, read: int, problems: Sequence[Problem], failed: Sequence[FailedSample]
    ) -> RunReport:
        """Return the report.

        Args:
            book: The skillbook after the run.
            read: How many traces were found.
            problems: What could not be read.
            failed: What failed in the run.
        """
        count = self._changes
        added = [skill for id in self._added if (skill := book.get_skill(id)) is not None]
        pending = [skill for skill in added if skill.is_pending]
        return RunReport(
            read=read,
            learned=self.learned,
            already_learned=self.already_learned,
            not_begun=self.not_finished,
            failures=[
                *(Failure(problem.place, problem.reason, "input") for problem in problems),
                *(Failure(place_of(sample.trace_id), _shortened(sample.error), sample.step) for sample in failed),
            ],
            skills=SkillCounts(
                added=count["ADD"] - len(pending),
                pending=len(pending),
                updated=count["UPDATE"],
                tagged=count["TAG"],
                merged=count["MERGE"],
                removed=count["REMOVE"] + count["DELETE"],
                skipped=len(self._left_out),
                total=len(book),
            ),
            new_skills=_new_skills(skill for skill in added if skill.is_active),
            pending_skills=_new_skills(pending),
            left_out=tuple(self._left_out),
            use=self.use,
            proofs=self._proofs,
            gate=self._gate,
            shortened=dict(self._shortened),
            judged_by={name: number for name, number in sorted(self._judged_by.items()) if number},
        )

    def _count_sample(self, event: SampleEnded) -> None:
        if event.already_learned:
            self.already_learned += 1
        elif event.error is None:
            self.learned += 1
        elif isinstance(event.error, PipelineCancelled):
            self.not_finished += 1

    def _count_changes(self, event: SkillsChanged) -> None:
        for change in event.applied:
            self._changes[change.kind] += 1
            if change.kind == "ADD":
                self._added[change.skill_id] = None
        place = place_of(event.trace_id)
        self._left_out += [LeftOut(skipped.kind, skipped.skill_id, skipped.reason, place) for skipped in event.skipped]

    def _count_proof(self, event: SkillProven) -> None:
        before = self._proofs
        if event.reason:
            self._proofs = replace(before, rejected=before.rejected + 1)
        elif event.passed is None:
            self._proofs = replace(before, not_judged=before.not_judged + 1)
        elif event.passed:
            rewritten = before.rewritten + (event.retries > 0)
            self._proofs = replace(before, proven=before.proven + 1, rewritten=rewritten)
        else:
            self._proofs = replace(before, failing=before.failing + 1)

    def _count_verdict(self, event: BatchJudged) -> None:
        before = self._gate
        if event.accepted:
            self._gate = replace(before, accepted=before.accepted + 1)
        else:
            self._gate = replace(before, refused=before.refused + 1)


def _counted(before: ModelUse, event: ModelCalled) -> ModelUse:
    if event.recorded:
        return replace(before, recorded_calls=before.recorded_calls + 1)
    return replace(
        before,
        calls=before.calls + 1,
        input_tokens=before.input_tokens + event.input_tokens,
        output_tokens=before.output_tokens + event.output_tokens,
        cost=before.cost + (event.cost or 0.0),
        unpriced_calls=before.unpriced_calls + (event.cost is None),
        cached_input_tokens=before.cached_input_tokens + event.cached_input_tokens,
        cache_write_tokens=before.cache_write_tokens + event.cache_write_tokens,
    )


def _new_skills(added: Iterable[Skill]) -> list[NewSkill]:
    return [
        NewSkill(
            skill.id,
            skill.section,
            skill.content,
            tuple(dict.fromkeys(place_of(source.trace_id) for source in skill.sources if source.trace_id)),
            skill.proof,
            skill.reason,
        )
        for skill in added
    ]


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."


def report_as_json(report: RunReport) -> dict[str, object]:
    """Return the report as JSON values, for `--json`."""
    return {
        "traces": {
            "read": report.read,
            "learned": report.learned,
            "already_learned": report.already_learned,
            "failed": len(report.failures),
            "unreadable": report.unreadable,
            "not_begun": report.not_begun,
        },
        "failures": [{**asdict(failure), "reason": redact(failure.reason)} for failure in report.failures],
        "skills": asdict(report.skills),
        "left_out": [{**asdict(change), "reason": redact(change.reason)} for change in report.left_out],
        "new_skills": [{**asdict(skill), "traces": list(skill.traces)} for skill in report.new_skills],
        "pending_skills": [{**asdict(skill), "traces": list(skill.traces)} for skill in report.pending_skills],
        "model_use": asdict(report.use),
        "proofs": asdict(report.proofs),
        "shortened": dict(report.shortened),
        "judged_by": dict(report.judged_by),
        "gate": asdict(report.gate),
    }


def print_report(report: RunReport, *, title: str, noun: str = "trace", epochs: int = 1) -> None:
    """Print the report for people.

    Args:
        title: What was done, with the skillbook.
        noun: What one input is called.
        epochs: The number of passes over the inputs.
    """
    print_table(["", ""], _rows(report, noun, epochs), title=title)
    if report.failures:
        shown = report.failures[:_MOST_FAILURES_SHOWN]
        print_text("")
        print_table(
            ["not learned", "at", "why"],
            [[failure.place, failure.stage, redact(failure.reason)] for failure in shown],
        )
        if len(report.failures) > len(shown):
            print_text(f"... and {len(report.failures) - len(shown)} more; --json lists all")
    if report.shortened:
        print_text("")
        print_table(["shortened", "characters cut"], [[place, str(cut)] for place, cut in report.shortened.items()])
    if report.left_out:
        print_text("")
        counted_out = Counter((_WANTED.get(change.operation, "a change"), change.reason) for change in report.left_out)
        print_table(
            ["rejected", "why", "times"],
            [[wanted, redact(reason), str(times)] for (wanted, reason), times in counted_out.items()],
        )
    for title, skills in (("New skills:", report.new_skills), ("Pending, so not shown:", report.pending_skills)):
        if skills:
            print_text(f"\n{title}")
        for skill in skills:
            print_text(f"[{skill.id}] {visible(' '.join(skill.content.split()))}")
            mark = visible(skill.pending_because) or skill.proof
            print_text(f"    {mark}, from {visible(', '.join(skill.traces)) or 'no trace'}")


def _rows(report: RunReport, noun: str, epochs: int) -> list[list[str]]:
    skills, use = report.skills, report.use
    passes = f", {epochs} times each" if epochs > 1 else ""
    proofs = report.proofs
    rows: list[tuple[str, int | str]] = [
        ("inputs that cannot be read", report.unreadable),
        (f"{noun}s read", f"{report.read}{passes}"),
        (f"{noun}s learned", report.learned),
        ("learned by another run", report.already_learned),
        ("failed", len(report.failures) - report.unreadable),
        ("not processed", report.not_begun),
        *((f"judged by {name}", number) for name, number in report.judged_by.items()),
        ("skills added", skills.added),
        ("skills left pending", skills.pending),
        ("skills updated", skills.updated),
        ("skills tagged", skills.tagged),
        ("skills merged", skills.merged),
        ("skills removed", skills.removed),
        ("changes rejected", skills.skipped),
        (f"{noun}s whose changes the gate accepted", report.gate.accepted),
        (f"{noun}s whose changes the gate refused", report.gate.refused),
        ("skills in all", skills.total),
        ("model calls", use.calls),
        ("recorded answers reused", use.recorded_calls),
        ("tokens in, out", f"{use.input_tokens}, {use.output_tokens}" if use.calls else ""),
        ("tokens in from the provider's cache", _cached_share(use) if use.cached_input_tokens else ""),
        ("tokens in written to that cache", use.cache_write_tokens),
        ("cost", _cost_of(use)),
        ("proven", _proven(proofs)),
        ("proof failed", proofs.failing),
        ("rejected by their proof", proofs.rejected),
        ("proof not judged", proofs.not_judged),
        ("model calls for proofs", proofs.use.calls),
        ("cost of proofs", _cost_of(proofs.use)),
    ]
    return [[name, str(value)] for name, value in rows if value]


def _cached_share(use: ModelUse) -> str:
    return f"{use.cached_input_tokens} ({use.cached_input_tokens / max(1, use.input_tokens):.0%})"


def _proven(proofs: ProofCounts) -> str:
    reworded = f", {proofs.rewritten} of them reworded" if proofs.rewritten else ""
    return f"{proofs.proven}{reworded}" if proofs.proven else ""


def _cost_of(use: ModelUse) -> str:
    """Return the cost as text; empty if it is known to be zero, as that of a model on this machine."""
    if not use.cost and not use.unpriced_calls:
        return ""
    cost = "unknown" if use.calls and use.unpriced_calls == use.calls else f"${use.cost:.4f}"
    if 0 < use.unpriced_calls < use.calls:
        cost += f" and {counted(use.unpriced_calls, 'call')} of unknown price"
    return cost


def write_results(
    path: Path,
    *,
    about: Mapping[str, object],
    settings: Settings,
    options: Mapping[str, object],
    outcome: Mapping[str, object],
    epochs: Sequence[Mapping[str, object]],
    book: Skillbook,
) -> None:
    """Write the file of `--results`: what a run was asked for, its outcome, and the skillbook, as one JSON object.

    The file is replaced atomically.

    Args:
        path: The file; an earlier one is replaced.
        about: What `--json` says about the run.
        settings: The settings of the run. Keys are hidden.
        options: The other options of the run.
        outcome: What `--json` says about the outcome.
        epochs: What `epochs_of` returned. What the outcome says about an epoch is added to it.
        book: The skillbook after the run.

    Raises:
        OSError: The file cannot be written; an earlier one is not changed.
    """
    configuration = {
        "settings": {
            name: {"value": shown_setting(setting, settings), "from": settings.origins[name]}
            for name, setting in SETTINGS.items()
        },
        "options": dict(options),
    }
    outcomes = outcome.get("epochs")
    told_of = {epoch["epoch"]: epoch for epoch in outcomes} if isinstance(outcomes, list) else {}
    document = {
        "schema": JSON_SCHEMA,
        **about,
        "configuration": configuration,
        **outcome,
        "epochs": [{**told_of.get(epoch["epoch"], {}), **epoch} for epoch in epochs],
        "version": book.version,
        "book": json.loads(book.dumps()),
    }
    replace_file(path, f"{json.dumps(document, indent=2)}\n".encode("ascii"))


def epochs_of(results: Sequence[SampleResult[ACEStepContext]], size: int) -> list[dict[str, object]]:
    """Return the outcome of each epoch: how many failed, and the mean of each of their metrics.

    Args:
        results: The results of all epochs, in order; those of the last epochs are missing if the run ended early.
        size: The number of inputs in each epoch.
    """
    return [
        {
            "epoch": number,
            "samples": len(part),
            "learned": sum(result.error is None for result in part),
            "metrics": _means([_metrics_of(result) for result in part]),
        }
        for number, part in processed_by_epoch(results, size)
    ]


def processed_by_epoch(
    results: Sequence[SampleResult[ACEStepContext]], size: int
) -> list[tuple[int, Sequence[SampleResult[ACEStepContext]]]]:
    """Return the number of each epoch with the results of its samples, without those that were not processed.

    Epochs in which no sample was processed, because the run was stopped before them, are omitted.

    Args:
        results: The results of all epochs, in order.
        size: The number of inputs in each epoch.
    """
    parts = [results[start : start + size] for start in range(0, len(results), size)]
    processed = [[result for result in part if not isinstance(result.error, PipelineCancelled)] for part in parts]
    return [(number, part) for number, part in enumerate(processed, 1) if part]


def _metrics_of(result: SampleResult[ACEStepContext]) -> Mapping[str, float]:
    trace = None if result.output is None else result.output.trace
    metrics = trace.get("metrics") if isinstance(trace, Mapping) else None
    found = metrics if isinstance(metrics, Mapping) else {}
    return {str(name): float(value) for name, value in found.items() if isinstance(value, int | float)}


def _means(found: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the mean of each metric, with the number of samples that have it."""
    names = dict.fromkeys(name for metrics in found for name in metrics)
    values = {name: [metrics[name] for metrics in found if name in metrics] for name in names}
    return {name: {"mean": sum(numbers) / len(numbers), "samples": len(numbers)} for name, numbers in values.items()}
