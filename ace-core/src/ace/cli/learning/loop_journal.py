"""The lines that `ace learn` prints about each attempt at a task, and the decisions for `--json`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

from ace.calls.secrets import redact
from ace.cli.console import counted, print_text, visible
from ace.cli.skillbooks.described_history import place_of
from ace.pipeline import PipelineCancelled
from ace.protocols.observers import (
    ArtifactWritten,
    BatchJudged,
    Event,
    InsightsFound,
    SampleEnded,
    SkillsChanged,
)

if TYPE_CHECKING:
    from ace.loop import InsightLog
    from ace.skillbook import Skillbook

__all__ = ["LoopJournal"]

_LONGEST: Final = 100
"""The maximum length of a description, in characters."""
_MOST_KEPT: Final = 10_000
"""How many decisions are kept; a watcher may run for months."""
_OUTCOMES: Final = {True: "success", False: "failure", None: "partial"}


@dataclass(slots=True)
class _Trace:
    """What has happened to one trace."""

    found: InsightsFound | None = None
    verdict: BatchJudged | None = None
    artifact: ArtifactWritten | None = None
    added: int = 0
    changed: int = 0
    removed: int = 0
    refused: int = 0


@dataclass(slots=True)
class _Epoch:
    """The counts of one epoch."""

    traces: int = 0
    accepted: int = 0
    refused: int = 0
    pending: set[str] = field(default_factory=set)
    """The ids of the insights that stayed pending."""
    failed: int = 0
    added: int = 0
    net_before: int = 0
    net_after: int = 0


@final
class LoopJournal:
    """Observes a run, prints the decision about each trace, and records the decisions.

    Args:
        quiet: Whether to print nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self._open: dict[str, _Trace] = {}
        self._total: int | None = None
        self._ended = 0
        self._first_net = 0
        self._book: Skillbook | None = None
        self._epochs: dict[int, _Epoch] = {}
        self.decisions: list[dict[str, object]] = []
        """The decision about each trace, as JSON values; the last 10,000."""
        self.pruned: Sequence[str] = ()
        """The ids of the skills that were removed after epochs."""

    def begin(self, book: Skillbook, total: int | None) -> None:
        """Note the skillbook and the number of traces in all epochs, before the run begins.

        Args:
            book: The skillbook that learns.
            total: The number of traces; None if it is not known.
        """
        self._book = book
        self._total = total
        self._first_net = self._net()

    def note_pending(self, log: InsightLog) -> None:
        """Count only the insights that are still pending after the run: later traces may have supported the others.

        Args:
            log: The log of insights of the run.
        """
        still = {insight.id for insight in log.insights(status="pending")}
        for epoch in self._epochs.values():
            epoch.pending &= still

    def __call__(self, event: Event) -> None:
        """Handle one event of the run."""
        if not isinstance(event, InsightsFound | BatchJudged | ArtifactWritten | SkillsChanged | SampleEnded):
            return
        if isinstance(event, SkillsChanged) and not event.trace_id:
            self._count_after_epoch()
            return
        with self._lock:
            trace = self._open.setdefault(event.trace_id, _Trace())
            match event:
                case InsightsFound():
                    trace.found = event
                case BatchJudged():
                    trace.verdict = event
                case ArtifactWritten():
                    trace.artifact = event
                case SkillsChanged():
                    _count(trace, event)
                case SampleEnded():
                    del self._open[event.trace_id]
                    self._end(trace, event)

    def _count_after_epoch(self) -> None:
        """Attribute skills that were removed or merged after the last trace to its epoch."""
        with self._lock:
            for epoch in list(self._epochs.values())[-1:]:
                epoch.net_after = self._net()

    def _end(self, trace: _Trace, event: SampleEnded) -> None:
        if event.already_learned or isinstance(event.error, PipelineCancelled):
            return
        self._ended += 1
        epoch = self._epochs.setdefault(event.epoch, _Epoch(net_before=self._net_before(event.epoch)))
        accepted = event.error is None and _is_accepted(trace)
        epoch.traces += 1
        epoch.failed += event.error is not None
        epoch.accepted += accepted
        epoch.refused += trace.verdict is not None and not trace.verdict.accepted
        epoch.pending.update(() if trace.found is None else trace.found.pending_ids)
        epoch.added += trace.added if accepted else 0
        epoch.net_after = self._net()
        if len(self.decisions) == _MOST_KEPT:
            del self.decisions[0]
        self.decisions.append(_decision(trace, event, accepted=accepted))
        if not self._quiet:
            for line in self._lines(trace, event):
                print_text(visible(line))

    def _net_before(self, epoch: int) -> int:
        earlier = [totals for number, totals in self._epochs.items() if number < epoch]
        return earlier[-1].net_after if earlier else self._first_net

    def _net(self) -> int:
        tags = {} if self._book is None else self._book.stats()["tags"]
        return tags["helpful"] - tags["harmful"] if isinstance(tags, dict) and tags else 0

    def _lines(self, trace: _Trace, event: SampleEnded) -> list[str]:
        """Return what is printed about a trace."""
        lines = [self._title(trace, event)]
        if event.error is not None:
            step = f"{event.failed_at}: " if event.failed_at else ""
            return [*lines, f"  failed   {step}{redact(' '.join(str(event.error).split()))[:400]}"]
        if trace.found is not None:
            found = trace.found
            ready = f"{found.ready} with confidence >= {found.min_confidence:.2f}"
            lines.append(
                f"  reflect  {counted(found.ready + found.pending, 'insight')}: {ready}, {found.pending} pending"
            )
        lines.append(f"  update   {_changes(trace)}")
        if trace.verdict is not None:
            verdict = "accepted" if trace.verdict.accepted else "refused"
            lines.append(f"  gate     {verdict}: {trace.verdict.reason}")
        if trace.artifact is not None:
            lines.append(f"  kept     version {trace.artifact.version}, {trace.artifact.folder}")
        return lines

    def _title(self, trace: _Trace, event: SampleEnded) -> str:
        of = "" if self._total is None else f" of {self._total}"
        found = trace.found
        if found is None:
            return f"trace {place_of(event.trace_id)} (trace {self._ended}{of})"
        about = [f"trace {self._ended}{of}", _OUTCOMES[found.success]]
        about += [f"{counted(found.consulted, 'skill')} consulted"] if found.consulted else []
        about += [counted(found.files, "file")] if found.files else []
        text = " ".join(found.description.split())
        description = f": {text if len(text) <= _LONGEST else f'{text[:_LONGEST]}...'}" if text else ""
        return f"task {found.task_id}{description} ({', '.join(about)})"

    def as_json(self) -> dict[str, object]:
        """Return the decisions and the counts, as JSON values."""
        epochs = [
            {
                "epoch": number,
                "traces": counts.traces,
                "accepted": counts.accepted,
                "refused": counts.refused,
                "pending": len(counts.pending),
                "failed": counts.failed,
                "added": counts.added,
                "net_before": counts.net_before,
                "net_after": counts.net_after,
            }
            for number, counts in sorted(self._epochs.items())
        ]
        return {"decisions": self.decisions, "epochs": epochs, "pruned": list(self.pruned)}

    def summary(self) -> list[str]:
        """Return the counts as lines for people, one for each epoch."""
        several = len(self._epochs) > 1
        lines = []
        for number, counts in sorted(self._epochs.items()):
            beginning = f"epoch {number}: " if several else ""
            net = f"{counts.net_before} -> {counts.net_after} ({counts.net_after - counts.net_before:+d})"
            lines.append(
                f"{beginning}{counted(counts.traces, 'trace')}, {counts.accepted} accepted, {counts.refused} refused, "
                f"{counted(len(counts.pending), 'insight')} pending, {counted(counts.added, 'skill')} added; "
                f"net score {net}"
            )
        if self.pruned:
            lines.append(f"removed after an epoch: {', '.join(self.pruned)}")
        return lines


def _count(trace: _Trace, event: SkillsChanged) -> None:
    for change in event.applied:
        trace.added += change.kind == "ADD"
        trace.changed += change.kind in ("UPDATE", "MERGE")
        trace.removed += change.kind in ("REMOVE", "DELETE")
    trace.refused += sum(change.kind != "TAG" for change in event.skipped)


def _changes(trace: _Trace) -> str:
    """Return what was changed, or would have been."""
    if not _is_accepted(trace):
        return f"{counted(trace.refused, 'change')} proposed" if trace.refused else "nothing to change"
    parts = [
        counted(trace.added, "new skill"),
        *([f"{trace.changed} changed"] if trace.changed else []),
        *([f"{trace.removed} removed"] if trace.removed else []),
        *([f"{trace.refused} not applied"] if trace.refused else []),
    ]
    return ", ".join(parts)


def _is_accepted(trace: _Trace) -> bool:
    """Return whether changes of skills were kept."""
    return bool(trace.added or trace.changed or trace.removed)


def _decision(trace: _Trace, event: SampleEnded, *, accepted: bool) -> dict[str, object]:
    verdict, found = trace.verdict, trace.found
    if event.error is not None:
        reason = f"failed in {event.failed_at}" if event.failed_at else "failed"
    elif verdict is not None:
        reason = verdict.reason
    elif found is not None and found.pending and not found.ready:
        reason = "too few tasks have shown it"
    else:
        reason = "no gate" if accepted else "nothing to change"
    before: Mapping[str, float] = {} if verdict is None else verdict.before
    after: Mapping[str, float] = {} if verdict is None else verdict.after
    return {
        "task": place_of(event.trace_id).partition("/")[0] if found is None else found.task_id,
        "trace": event.trace_id,
        "epoch": event.epoch,
        "accepted": accepted,
        "reason": reason,
        "before": dict(before),
        "after": dict(after),
        "version": None if trace.artifact is None else trace.artifact.version,
        "artifacts": None if trace.artifact is None else trace.artifact.folder,
    }
