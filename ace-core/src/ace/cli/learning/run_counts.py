"""Counts what happens in a run, for its report."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ace.cli.learning.run_report import (
    Failure,
    LeftOut,
    ModelUse,
    NewSkill,
    ProofCounts,
    RunReport,
    SkillCounts,
    place_of,
)
from ace.pipeline import PipelineCancelled
from ace.proofs import PROVE_ROLE
from ace.protocols.observers import Event, ModelCalled, SampleEnded, SkillProven, SkillsChanged

if TYPE_CHECKING:
    from ace.cli.inputs import InputProblem
    from ace.runners import FailedSample
    from ace.skillbook import Skillbook

__all__ = ["RunCounts"]

_LONGEST_REASON = 400


@dataclass
class RunCounts:
    """Counts the events of a run; it is an observer."""

    learned: int = 0
    already_learned: int = 0
    not_finished: int = 0
    use: ModelUse = field(default_factory=ModelUse)
    """What the model was asked."""
    _proofs: ProofCounts = field(default_factory=ProofCounts)
    _changes: Counter[str] = field(default_factory=Counter)
    _added: dict[str, None] = field(default_factory=dict)
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
            elif isinstance(event, ModelCalled):
                self.use = _counted(self.use, event)
                if event.role == PROVE_ROLE:
                    self._proofs = replace(self._proofs, use=_counted(self._proofs.use, event))

    def report(
        self, book: Skillbook, *, read: int, problems: Sequence[InputProblem], failed: Sequence[FailedSample]
    ) -> RunReport:
        """Return the report.

        Args:
            book: The skillbook after the run.
            read: How many traces were found.
            problems: What could not be read.
            failed: What failed in the run.
        """
        count = self._changes
        return RunReport(
            read=read,
            learned=self.learned,
            already_learned=self.already_learned,
            not_begun=self.not_finished,
            failures=[
                *(Failure(problem.place, problem.reason, "input") for problem in problems),
                *(Failure(place_of(each.trace_id), _shortened(each.error), each.step) for each in failed),
            ],
            skills=SkillCounts(
                added=count["ADD"],
                updated=count["UPDATE"],
                tagged=count["TAG"],
                merged=count["MERGE"],
                removed=count["REMOVE"] + count["DELETE"],
                skipped=len(self._left_out),
                total=len(book),
            ),
            new_skills=_new_skills(book, self._added),
            left_out=tuple(self._left_out),
            use=self.use,
            proofs=self._proofs,
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
        self._left_out += [LeftOut(each.kind, each.skill_id, each.reason, place) for each in event.skipped]

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
    )


def _new_skills(book: Skillbook, added: dict[str, None]) -> list[NewSkill]:
    found = [book.get_skill(skill_id) for skill_id in added]
    return [
        NewSkill(
            skill.id,
            skill.section,
            skill.content,
            tuple(dict.fromkeys(place_of(source.trace_id) for source in skill.sources if source.trace_id)),
        )
        for skill in found
        if skill is not None and skill.is_active
    ]


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."
